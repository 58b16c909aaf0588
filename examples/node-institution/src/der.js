// As much DER as certificates, revocation lists and certificate requests need (X.690).

import { refuse } from './errors.js';
import { join } from './bytes.js';

export const TAG = {
  boolean: 0x01, integer: 0x02, bits: 0x03, octets: 0x04, oid: 0x06, utf8: 0x0c, sequence: 0x30, set: 0x31,
};

const broken = () => refuse('certificate-refused', 'not DER');

/** Read one element from the start: its tag, its content, all its bytes and what follows. */
export function read(bytes) {
  if (bytes.length < 2 || (bytes[0] & 0x1f) === 0x1f) broken();
  let size = bytes[1];
  let start = 2;
  if (size & 0x80) {
    const width = size & 0x7f;
    if (width < 1 || width > 4 || bytes.length < 2 + width) broken();
    size = bytes.readUIntBE(2, width);
    start += width;
    if (size < 0x80 || size < 2 ** (8 * (width - 1))) broken(); // not the shortest form
  }
  if (bytes.length < start + size) broken();
  const end = start + size;
  return { tag: bytes[0], content: bytes.subarray(start, end), all: bytes.subarray(0, end), rest: bytes.subarray(end) };
}

/** Read the one element that `bytes` is, with this tag. */
export function whole(bytes, tag) {
  const found = read(bytes);
  if (found.tag !== tag || found.rest.length) broken();
  return found;
}

/** Read all elements of a content. */
export function items(content) {
  const found = [];
  for (let rest = content; rest.length; rest = found.at(-1).rest) found.push(read(rest));
  return found;
}

export function oidOf(content) {
  const parts = [];
  let value = 0;
  for (const byte of content) {
    value = value * 128 + (byte & 0x7f);
    if (byte & 0x80) continue;
    parts.push(...(parts.length ? [value] : [Math.min(Math.floor(value / 40), 2), value - 40 * Math.min(Math.floor(value / 40), 2)]));
    value = 0;
  }
  return parts.join('.');
}

/** Seconds since 1970 of a UTCTime (0x17) or GeneralizedTime (0x18) in the form that RFC 5280 allows. */
export function timeOf({ tag, content }) {
  const text = content.toString('latin1');
  const found = /^(\d{2}|\d{4})(\d{2})(\d{2})(\d{2})(\d{2})(\d{2})Z$/.exec(text);
  if (!found || (tag === 0x17) !== (found[1].length === 2) || (tag !== 0x17 && tag !== 0x18)) broken();
  const [year, month, day, hour, minute, second] = found.slice(1).map(Number);
  const century = tag === 0x18 ? 0 : year < 50 ? 2000 : 1900;
  return Date.UTC(century + year, month - 1, day, hour, minute, second) / 1000;
}

/** Write one element. */
export function write(tag, ...parts) {
  const content = join(...parts);
  if (content.length < 0x80) return join([tag, content.length], content);
  const size = Buffer.from(content.length.toString(16).padStart(content.length < 0x100 ? 2 : 4, '0'), 'hex');
  return join([tag, 0x80 | size.length], size, content);
}

export const sequence = (...parts) => write(TAG.sequence, ...parts);

export function oid(text) {
  const [first, second, ...others] = text.split('.').map(Number);
  const septets = [40 * first + second, ...others].flatMap((value) => {
    const out = [value & 0x7f];
    for (let left = value >> 7; left; left >>= 7) out.unshift((left & 0x7f) | 0x80);
    return out;
  });
  return write(TAG.oid, septets);
}
