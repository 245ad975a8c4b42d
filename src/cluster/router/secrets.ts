/** Secrets and certificates, which are not settings: nothing prints them. */
export interface RouterSecrets {
  /** Sent to workers of Perigee as bearer token; without it, `workerApiKey` is. */
  readonly clusterSecret?: string;
  /** Sent to all other workers. */
  readonly workerApiKey?: string;
  /** Certificate and key of this server, in PEM: clients come by https. */
  readonly tls?: { readonly cert: string; readonly key: string };
  /** Certificates of authorities for https workers, in PEM. */
  readonly workerCa?: string;
}
