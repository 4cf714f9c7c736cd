// Holds HEAP_MB megabytes of live memory.
globalThis.heldByBench = Array.from({ length: Number(process.env.HEAP_MB ?? 0) }, () =>
  Array.from({ length: 131_072 }, (_, i) => i + 0.5),
);
