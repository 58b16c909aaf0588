// Reads tests/vectors of the repository, or the folder that ODC_VECTORS names.

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { join } from 'node:path';
import assert from 'node:assert/strict';

import { OdcError } from '../src/errors.js';
import { Float } from '../src/msgpack.js';

export const FOLDER = process.env.ODC_VECTORS ?? fileURLToPath(new URL('../../../tests/vectors', import.meta.url));

export const load = (name) => JSON.parse(readFileSync(join(FOLDER, name), 'utf8'));
export const hex = (text) => Buffer.from(text, 'hex');

/** The bytes of a case: all of them, or parts with how often each is repeated. */
export const whole = (given) => (given.hex !== undefined ? hex(given.hex)
  : Buffer.concat(given.parts.flatMap(([data, times]) => Array.from({ length: times }, () => hex(data)))));

/** A value in the notation of the vectors: bytes as {hex}, large integers as JSON reads them. */
export function plain(value) {
  if (value instanceof Uint8Array) return { hex: Buffer.from(value).toString('hex') };
  if (typeof value === 'bigint') return Number(value);
  if (value instanceof Float) return value.value;
  if (Array.isArray(value)) return value.map(plain);
  if (value !== null && typeof value === 'object') {
    return Object.fromEntries(Object.entries(value).filter(([, each]) => each !== undefined).map(([key, each]) => [key, plain(each)]));
  }
  return value;
}

/** Require the verdict of a case: that `action` returns, or is refused with this slug. */
export function judge(verdict, action) {
  if (verdict === 'valid') return action();
  assert.throws(action, (error) => {
    assert.ok(error instanceof OdcError, `not one of ours: ${error.stack}`);
    if (verdict !== 'refused') assert.equal(error.slug, verdict, error.message); // or any of ours
    return true;
  });
  return undefined;
}
