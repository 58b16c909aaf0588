// One class for everything that is refused. `slug` is that of docs/protocol.md, section 12.

export class OdcError extends Error {
  constructor(slug, detail, more = {}) {
    super(detail);
    this.name = 'OdcError';
    this.slug = slug;
    Object.assign(this, more); // what a problem document says besides: expected, retry_after_s
  }
}

export function refuse(slug, detail) {
  throw new OdcError(slug, detail);
}

/** Run `action`; whatever it throws that is not ours becomes an error with this slug. */
export function orRefuse(slug, detail, action) {
  try {
    return action();
  } catch (error) {
    if (error instanceof OdcError) throw error;
    throw new OdcError(slug, detail);
  }
}
