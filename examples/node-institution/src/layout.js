// Types of fields and layouts of messages. A layout reads what `unpack` gives and writes what `pack` takes.

import { refuse } from './errors.js';
import { Float, pack, unpack } from './msgpack.js';
import { sha256 } from './bytes.js';

const malformed = (detail) => refuse('malformed-message', detail);
const same = (value) => value;
const check = (name, test) => ({
  read: (raw, where) => (test(raw) ? raw : malformed(`${where}: not ${name}`)),
  write: same,
});

// Characters that would let what is signed look other than it is (section 2).
const FORBIDDEN = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/;
const FORBIDDEN_IN_TEXT = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/;
const characters = (text) => [...text].length;
const isText = (raw) => typeof raw === 'string';
const isInteger = (raw) => typeof raw === 'bigint' || Number.isInteger(raw);
const isBytes = (raw) => raw instanceof Uint8Array;

export const isName = (raw) =>
  isText(raw) && raw !== '' && characters(raw) <= 200 && !FORBIDDEN.test(raw);
export const isParty = (raw) => isText(raw) && /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/.test(raw);
export const isId = (raw) => isText(raw) && /^[0-9a-f]{32}$/.test(raw);

export const name = check('a name', isName);
export const text = check('a text', (raw) =>
  isText(raw) && characters(raw) <= 20000 && !FORBIDDEN_IN_TEXT.test(raw));
export const short = (limit) =>
  check('a short text', (raw) => isText(raw) && characters(raw) <= limit && !FORBIDDEN.test(raw));
export const plainText = (limit) => check('a text', (raw) => isText(raw) && characters(raw) <= limit);
export const party = check('a party', isParty);
export const id = check('an id', isId);
export const boolean = check('a boolean', (raw) => typeof raw === 'boolean');
export const bytes = (low, high) =>
  check(`${low} to ${high} bytes`, (raw) => isBytes(raw) && raw.length >= low && raw.length <= high);
export const digest = bytes(32, 32);
export const blob = bytes(1, 65536);
export const anyBytes = bytes(0, 4194304);
export const integer = (low, high) =>
  check(`an integer from ${low} to ${high}`, (raw) => isInteger(raw) && raw >= low && raw <= high);
export const count = integer(0, 9007199254740991);
export const time = integer(0, 253402300799);
export const one = (...words) => check(`one of ${words}`, (raw) => words.includes(raw));
export const matching = (pattern) => check(`like ${pattern}`, (raw) => isText(raw) && pattern.test(raw));
export const hexDigits = (size) =>
  check(`${size} hexadecimal digits`, (raw) => isText(raw) && raw.length === size && /^[0-9a-f]*$/.test(raw));

/** A float; `above` and `below` are bounds it may not reach, `low` and `high` ones it may. */
export const float = ({ above = -Infinity, low = -Infinity, below = Infinity, high = Infinity } = {}) => ({
  read(raw, where) {
    if (!(raw instanceof Float)) malformed(`${where}: not a float`);
    const { value } = raw;
    if (!Number.isFinite(value)) malformed(`${where}: not a finite number`);
    if (!(value > above && value >= low && value < below && value <= high)) malformed(`${where}: out of bounds`);
    return value;
  },
  write: (value) => new Float(value),
});

export const nullable = (type) => ({
  read: (raw, where) => (raw === null ? null : type.read(raw, where)),
  write: (value) => (value === null ? null : type.write(value)),
});

/** A field that may be left out, and is `undefined` then. */
export const optional = (type) => ({ ...type, optional: true });

export const list = (type, low, high, { distinct = false } = {}) => ({
  read(raw, where) {
    if (!Array.isArray(raw) || raw.length < low || raw.length > high) malformed(`${where}: not a list of ${low} to ${high}`);
    const items = raw.map((item, index) => type.read(item, `${where}[${index}]`));
    if (distinct && new Set(items.map((item) => pack(type.write(item)).toString('hex'))).size < items.length) malformed(`${where}: one twice`);
    return items;
  },
  write: (items) => items.map(type.write),
});

// Section 14: an unknown field of an open message is kept as it is if its name says that it is optional.
const OPTIONAL_NAME = /^opt_[a-z0-9][a-z0-9._@-]{0,95}$/;
const MAX_OPTIONAL_FIELDS = 16;
const MAX_OPTIONAL_BYTES = 65536;

const isPlain = (raw) => {
  if (raw instanceof Float) return Number.isFinite(raw.value);
  if (raw === null || typeof raw !== 'object' || isBytes(raw)) return true;
  return Object.values(raw).every(isPlain);
};

function checkUnknown(unknown, where) {
  const names = Object.keys(unknown);
  if (!names.every((key) => OPTIONAL_NAME.test(key))) malformed(`${where}: unknown field`);
  if (names.length > MAX_OPTIONAL_FIELDS) malformed(`${where}: more than ${MAX_OPTIONAL_FIELDS} unknown fields`);
  if (!names.every((key) => isPlain(unknown[key]))) malformed(`${where}: an unknown field that no message can have`);
  if (names.length && pack(unknown).length > MAX_OPTIONAL_BYTES) malformed(`${where}: unknown fields of more than ${MAX_OPTIONAL_BYTES} bytes`);
}

/** A map with these fields and no others; `rule` looks at all of them together. An open one keeps optional fields. */
export const record = (fields, rule = () => {}, { isOpen = false } = {}) => ({
  fields,
  read(raw, where) {
    if (raw === null || typeof raw !== 'object' || Array.isArray(raw) || isBytes(raw) || raw instanceof Float) malformed(`${where}: not a map`);
    const unknown = Object.fromEntries(Object.entries(raw).filter(([key]) => !Object.hasOwn(fields, key)));
    if (!isOpen && Object.keys(unknown).length) malformed(`${where}: unknown field`);
    checkUnknown(unknown, where);
    const value = { ...unknown };
    for (const [key, type] of Object.entries(fields)) {
      if (raw[key] !== undefined) value[key] = type.read(raw[key], `${where}.${key}`);
      else if (!type.optional) malformed(`${where}.${key}: missing`);
    }
    rule(value, (detail) => malformed(`${where}: ${detail}`));
    return value;
  },
  write(value) {
    const present = Object.entries(fields).filter(([key]) => value[key] !== undefined);
    const unknown = isOpen ? Object.entries(value).filter(([key]) => OPTIONAL_NAME.test(key)) : [];
    return Object.fromEntries([...present.map(([key, type]) => [key, type.write(value[key])]), ...unknown]);
  },
});

/** A message to which a later version may add optional fields. */
export const openRecord = (fields, rule = () => {}) => record(fields, rule, { isOpen: true });

/** One of several records, told apart by the text in `key`; `without` is the one that has no such field. */
export const tagged = (key, records, without = null) => {
  const pick = (value) => (value !== null && typeof value === 'object' && value[key] !== undefined
    ? Object.hasOwn(records, value[key]) && records[value[key]] : without);
  return {
    read: (raw, where) => (pick(raw) || malformed(`${where}: of no known ${key}`)).read(raw, where),
    write: (value) => pick(value).write(value),
  };
};

export const decode = (layout, data) => layout.read(unpack(data), 'message');
export const encode = (layout, value) => pack(layout.write(value));
export const messageDigest = (layout, value) => sha256(encode(layout, value));
