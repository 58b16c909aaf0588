// The canonical form of section 2. Integers are numbers, or BigInt where a number would lose digits;
// floats are `Float`, so that 1 and 1.0 stay apart; maps are objects without a prototype.

import { refuse } from './errors.js';
import { join } from './bytes.js';

const MAX_MESSAGE_BYTES = 4194304;
const MAX_NESTING = 16;
const MAX_CONTAINERS = 131072;
const MAX_FIELDS = 64;
const MAX_ITEMS = 65536;

export class Float {
  constructor(value) {
    this.value = value;
  }
}

const malformed = (detail) => refuse('malformed-message', detail);
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Order by the bytes of the keys, which is not the order of UTF-16. */
const byBytes = (a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b));

export function pack(value) {
  if (value === null) return Buffer.from([0xc0]);
  if (typeof value === 'boolean') return Buffer.from([value ? 0xc3 : 0xc2]);
  if (typeof value === 'number' || typeof value === 'bigint') return packInteger(BigInt(value));
  if (value instanceof Float) {
    const out = Buffer.alloc(9, 0xcb);
    out.writeDoubleBE(value.value, 1);
    return out;
  }
  if (typeof value === 'string') {
    const text = Buffer.from(value);
    return join(head(text.length, [32, 0xa0, 0xd9, 0xda, 0xdb]), text);
  }
  if (value instanceof Uint8Array) return join(head(value.length, [0, 0, 0xc4, 0xc5, 0xc6]), value);
  if (Array.isArray(value)) {
    return Buffer.concat([head(value.length, [16, 0x90, null, 0xdc, 0xdd]), ...value.map(pack)]);
  }
  const keys = Object.keys(value).sort(byBytes);
  const pairs = keys.flatMap((key) => [pack(key), pack(value[key])]);
  return Buffer.concat([head(keys.length, [16, 0x80, null, 0xde, 0xdf]), ...pairs]);
}

/** The shortest head for `size`: inside the type byte, then with 8, 16 and 32 bits. */
function head(size, [inside, base, bits8, bits16, bits32]) {
  if (size < inside) return Buffer.from([base | size]);
  if (bits8 !== null && size < 0x100) return Buffer.from([bits8, size]);
  const out = Buffer.alloc(size < 0x10000 ? 3 : 5, size < 0x10000 ? bits16 : bits32);
  out.writeUIntBE(size, 1, out.length - 1);
  return out;
}

function packInteger(value) {
  if (value >= -32n && value < 128n) return Buffer.from([Number(value & 0xffn)]);
  const code = value >= 0n ? 0xcc : 0xd0;
  for (const power of [0, 1, 2, 3]) {
    const bits = BigInt(8 << power);
    const fits = value >= 0n ? value < 1n << bits : value >= -(1n << (bits - 1n));
    if (!fits) continue;
    const wide = Buffer.alloc(8);
    wide.writeBigUInt64BE(BigInt.asUintN(64, value));
    return join([code + power], wide.subarray(8 - (1 << power)));
  }
  return malformed('an integer of more than 64 bits');
}

/** Read one canonical value, which must be all of `bytes`. */
export function unpack(bytes) {
  if (bytes.length > MAX_MESSAGE_BYTES) refuse('limit-exceeded', `a message of ${bytes.length} bytes`);
  const reader = new Reader(Buffer.from(bytes));
  const value = reader.value(1);
  if (reader.at !== bytes.length) malformed('bytes after the message');
  if (!pack(value).equals(bytes)) malformed('not in canonical form');
  return value;
}

class Reader {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
    this.containers = 0;
  }

  take(count) {
    if (this.at + count > this.bytes.length) malformed('the message ends too early');
    this.at += count;
    return this.bytes.subarray(this.at - count, this.at);
  }

  size(width) {
    return this.take(width).readUIntBE(0, width);
  }

  value(depth) {
    const code = this.size(1);
    if (code < 0x80) return code;
    if (code < 0x90) return this.map(code & 15, depth);
    if (code < 0xa0) return this.array(code & 15, depth);
    if (code < 0xc0) return this.text(code & 31);
    if (code >= 0xe0) return code - 256;
    switch (code) {
      case 0xc0: return null;
      case 0xc2: return false;
      case 0xc3: return true;
      case 0xc4: case 0xc5: case 0xc6: return Buffer.from(this.take(this.size(1 << (code - 0xc4))));
      case 0xcb: return new Float(this.take(8).readDoubleBE());
      case 0xcc: case 0xcd: case 0xce: return this.size(1 << (code - 0xcc));
      case 0xcf: return small(this.take(8).readBigUInt64BE());
      case 0xd0: case 0xd1: case 0xd2: return this.take(1 << (code - 0xd0)).readIntBE(0, 1 << (code - 0xd0));
      case 0xd3: return small(this.take(8).readBigInt64BE());
      case 0xd9: case 0xda: case 0xdb: return this.text(this.size(1 << (code - 0xd9)));
      case 0xdc: case 0xdd: return this.array(this.size(2 << (code - 0xdc)), depth);
      case 0xde: case 0xdf: return this.map(this.size(2 << (code - 0xde)), depth);
      default: return malformed(`the byte ${code.toString(16)} is not used`);
    }
  }

  text(size) {
    const bytes = this.take(size);
    try {
      return utf8.decode(bytes);
    } catch {
      return malformed('text that is not UTF-8');
    }
  }

  enter(depth) {
    if (depth > MAX_NESTING) malformed(`nested deeper than ${MAX_NESTING}`);
    this.containers += 1;
    if (this.containers > MAX_CONTAINERS) refuse('limit-exceeded', `more than ${MAX_CONTAINERS} maps and arrays`);
  }

  array(size, depth) {
    this.enter(depth);
    if (size > MAX_ITEMS) malformed(`an array of ${size} items`);
    return Array.from({ length: size }, () => this.value(depth + 1));
  }

  map(size, depth) {
    this.enter(depth);
    if (size > MAX_FIELDS) malformed(`a map of ${size} keys`);
    const found = Object.create(null);
    for (let count = 0; count < size; count += 1) {
      const key = this.value(depth + 1);
      if (typeof key !== 'string') malformed('a key that is no text');
      found[key] = this.value(depth + 1); // one that comes twice is not canonical
    }
    return found;
  }
}

const small = (value) => (Number.isSafeInteger(Number(value)) ? Number(value) : value);
