/** The port to where results live: whole objects under keys, with the two conditions that make claims safe. */
import type { Readable } from 'node:stream';

export interface StoredObject {
  readonly body: Buffer;
  /** opaque; changes with every replace */
  readonly version: string;
}

/** Bytes from their beginning, each time it is called; a chunk is good until the next but one is asked for. */
export type Content = () => AsyncIterable<Uint8Array>;

/**
 * Keys are `/`-separated. Every method throws StoreUnavailable when the store cannot be reached, is full or
 * refuses access. An object is visible whole or not at all.
 */
export interface ObjectStore {
  readonly url: string;
  /** Loads what the first request needs, so that it need not wait for that. */
  readonly connect?: () => Promise<unknown>;
  /** The object, or null when there is none. */
  readonly read: (key: string) => Promise<StoredObject | null>;
  /** Writes once: false when the key exists already, which is then left alone. */
  readonly create: (key: string, body: string | Uint8Array) => Promise<boolean>;
  /** Replaces the object if it still has that version: false when it has not. */
  readonly replace: (key: string, body: string | Uint8Array, version: string) => Promise<boolean>;
  /**
   * Writes content of any size under the key with bounded memory, over what is there. `content` is called again
   * when a part has to be sent again. `file` holds the same bytes, and nobody has it open: an adapter may make it the
   * object instead of copying it.
   */
  readonly upload: (key: string, content: Content, file?: string | null) => Promise<void>;
  /** The object as a stream, or null when there is none. */
  readonly open: (key: string) => Promise<Readable | null>;
  /** Keys that begin with `prefix`, which ends in `/`, in byte order. */
  readonly list: (prefix: string) => Promise<readonly string[]>;
}
