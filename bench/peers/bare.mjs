// A handler that does nothing.
export const handler = async () => ({ ok: true });
