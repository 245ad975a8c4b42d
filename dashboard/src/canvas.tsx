import { useEffect, useRef } from "preact/hooks";
import { onScheme } from "./colors.ts";

export interface CanvasProps {
  /** In words what it shows. */
  readonly says: string;
  readonly height: number;
  /** Draws in CSS pixels; the canvas is clear. */
  readonly draw: (pen: CanvasRenderingContext2D, width: number, height: number) => void;
  /** Changes when it is to be drawn again. */
  readonly version: unknown;
}

/** A drawing as wide as its place, sharp on every screen. */
export function Canvas({ says, height, draw, version }: CanvasProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const newest = useRef(draw);
  newest.current = draw;
  const paint = () => {
    const element = canvas.current;
    const pen = element?.getContext("2d") ?? null;
    if (element === null || pen === null) return;
    const width = element.clientWidth;
    const ratio = window.devicePixelRatio;
    const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (element.width !== wide) element.width = wide;
    if (element.height !== high) element.height = high;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    newest.current(pen, width, height);
  };
  useEffect(paint, [version, height]);
  useEffect(() => {
    const element = canvas.current;
    if (element === null) return;
    const resize = new ResizeObserver(paint);
    resize.observe(element);
    const stop = onScheme(paint);
    return () => {
      stop();
      resize.disconnect();
    };
  }, [height]);
  return (
    <canvas
      ref={canvas}
      class="canvas"
      style={{ height: `${height}px` }}
      role="img"
      aria-label={says}
    />
  );
}
