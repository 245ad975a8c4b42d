import koffi from "koffi";
import { EngineError, messageOf } from "#base";

/** A pointer of the library. */
export type Handle = bigint | object | null;
type Out<T> = [T | null];

/** `nixl_capi_…` of libnixl_capi.so as in NIXL 1.5: no package has its header. */
export interface NixlLibrary {
  createAgent(name: string, agent: Out<Handle>): number;
  destroyAgent(agent: Handle): number;
  pluginParams(agent: Handle, plugin: string, memory: Out<Handle>, params: Out<Handle>): number;
  destroyMemoryList(list: Handle): number;
  destroyParams(params: Handle): number;
  createBackend(agent: Handle, plugin: string, params: Handle, backend: Out<Handle>): number;
  destroyBackend(backend: Handle): number;
  createOptions(options: Out<Handle>): number;
  addBackend(options: Handle, backend: Handle): number;
  destroyOptions(options: Handle): number;
  createRegions(memoryType: number, list: Out<Handle>): number;
  addRegion(
    list: Handle,
    address: number,
    bytes: number,
    device: number,
    text: null,
    n: number,
  ): number;
  destroyRegions(list: Handle): number;
  register(agent: Handle, list: Handle, options: Handle): number;
  deregister(agent: Handle, list: Handle, options: Handle): number;
  localMetadata(agent: Handle, data: Out<Handle>, bytes: [number]): number;
  loadMetadata(agent: Handle, data: Uint8Array, bytes: number, name: Out<string>): number;
  forgetPeer(agent: Handle, name: string): number;
  createRanges(memoryType: number, list: Out<Handle>): number;
  addRange(list: Handle, address: number, bytes: number, device: number): number;
  destroyRanges(list: Handle): number;
  createRead(
    agent: Handle,
    operation: number,
    local: Handle,
    remote: Handle,
    peer: string,
    request: Out<Handle>,
    options: Handle,
  ): number;
  post(agent: Handle, request: Handle, options: Handle): number;
  status(agent: Handle, request: Handle): number;
  release(agent: Handle, request: Handle): number;
  destroyRead(request: Handle): number;
  free(memory: Handle): void;
  view(memory: Handle, bytes: number): ArrayBuffer;
}

export const SUCCESS = 0;
export const IN_PROGRESS = 1;
/** Memory of the host, in NIXL's words. */
export const DRAM = 0;
export const READ = 0;

const loaded = new Map<string, NixlLibrary>();

/** Throws INVALID_ARGUMENT where there is no such library. `path`: a file, or a library's name. */
export function nixlLibrary(path: string): NixlLibrary {
  const known = loaded.get(path);
  if (known !== undefined) return known;
  try {
    const library = load(path);
    if (loaded.size === 0) endWithoutDestructors();
    loaded.set(path, library);
    return library;
  } catch (error) {
    throw new EngineError(
      "INVALID_ARGUMENT",
      `Cannot load NIXL from ${path}: ${messageOf(error)}; give the path of libnixl_capi.so, ` +
        "which the Python packages nixl-cu12 and nixl-cu13 contain",
      { param: "nixl", cause: error },
    );
  }
}

/**
 * The package's libnl-route crashes in its destructor where the system has a libnl of its own, so
 * that each exit would be a failure. From here on the process ends before destructors of libraries
 * run: whatever they would free ends with it.
 */
function endWithoutDestructors(): void {
  const all = koffi.load(null);
  const symbol = all.func("void *dlsym(void *library, const char *name)");
  const onExit = all.func("int on_exit(void *handler, void *argument)");
  // It takes the exit code, as the handler gets it.
  onExit(symbol(null, "_exit"), null);
}

function load(path: string): NixlLibrary {
  const handle = koffi.load(path);
  const capi = (name: string, parameters: string) =>
    handle.func(`int nixl_capi_${name}(${parameters})`);
  return {
    createAgent: capi("create_agent", "const char *name, _Out_ void **agent"),
    destroyAgent: capi("destroy_agent", "void *agent"),
    pluginParams: capi(
      "get_plugin_params",
      "void *agent, const char *name, _Out_ void **memory, _Out_ void **params",
    ),
    destroyMemoryList: capi("destroy_mem_list", "void *list"),
    destroyParams: capi("destroy_params", "void *params"),
    createBackend: capi(
      "create_backend",
      "void *agent, const char *name, void *params, _Out_ void **backend",
    ),
    destroyBackend: capi("destroy_backend", "void *backend"),
    createOptions: capi("create_opt_args", "_Out_ void **options"),
    addBackend: capi("opt_args_add_backend", "void *options, void *backend"),
    destroyOptions: capi("destroy_opt_args", "void *options"),
    createRegions: capi("create_reg_dlist", "int type, _Out_ void **list"),
    addRegion: capi(
      "reg_dlist_add_desc",
      "void *list, uintptr_t address, size_t bytes, uint64_t device, const void *text, size_t n",
    ),
    destroyRegions: capi("destroy_reg_dlist", "void *list"),
    register: capi("register_mem", "void *agent, void *list, void *options"),
    deregister: capi("deregister_mem", "void *agent, void *list, void *options"),
    localMetadata: capi("get_local_md", "void *agent, _Out_ void **data, _Out_ size_t *bytes"),
    loadMetadata: capi(
      "load_remote_md",
      "void *agent, const void *data, size_t bytes, _Out_ char **name",
    ),
    forgetPeer: capi("invalidate_remote_md", "void *agent, const char *name"),
    createRanges: capi("create_xfer_dlist", "int type, _Out_ void **list"),
    addRange: capi(
      "xfer_dlist_add_desc",
      "void *list, uintptr_t address, size_t bytes, uint64_t device",
    ),
    destroyRanges: capi("destroy_xfer_dlist", "void *list"),
    createRead: capi(
      "create_xfer_req",
      "void *agent, int operation, void *local, void *remote, const char *peer, " +
        "_Out_ void **request, void *options",
    ),
    post: capi("post_xfer_req", "void *agent, void *request, void *options"),
    status: capi("get_xfer_status", "void *agent, void *request"),
    release: capi("release_xfer_req", "void *agent, void *request"),
    destroyRead: capi("destroy_xfer_req", "void *request"),
    free: koffi.load(null).func("void free(void *memory)"),
    view: koffi.view,
  };
}
