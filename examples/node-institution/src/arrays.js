// Arrays on the wire (section 8): number types, chunks, digests, scaled integers, how long a row can be.

import { equal, labelled, sha256 } from './bytes.js';
import { refuse } from './errors.js';
import { onScale, schemaWidth } from './columns.js';
import { DTYPE_BYTES, arrayBytes } from './messages.js';

export const CHUNK_BYTES = 1048576;

/** The nearest IEEE 754 half of a double, ties to even, as its 16 bits. */
export function halfBits(value) {
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const size = Math.abs(value);
  if (Number.isNaN(value)) return 0x7e00;
  if (size >= 65520) return sign | 0x7c00;
  const exponent = Math.max(Math.floor(Math.log2(size || 2 ** -24)), -14);
  const step = 2 ** (exponent - 10);
  const steps = toEven(size / step); // from 1024 to 2048 for normal numbers, fewer below 2^-14
  return sign | (steps + (exponent + 14) * 1024);
}

export function halfValue(bits) {
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  const size = exponent === 31 ? (fraction ? NaN : Infinity)
    : exponent ? (1024 + fraction) * 2 ** (exponent - 25) : fraction * 2 ** -24;
  return bits & 0x8000 ? -size : size;
}

const toEven = (value) => {
  const down = Math.floor(value);
  const rest = value - down;
  return rest > 0.5 || (rest === 0.5 && down % 2 !== 0) ? down + 1 : down;
};

const WRITERS = {
  f2: (out, at, value) => out.writeUInt16LE(halfBits(value), at),
  f4: (out, at, value) => out.writeFloatLE(value, at),
  f8: (out, at, value) => out.writeDoubleLE(value, at),
  u1: (out, at, value) => out.writeUInt8(value, at),
  u2: (out, at, value) => out.writeUInt16LE(value, at),
  i1: (out, at, value) => out.writeInt8(value, at),
};
const READERS = {
  f2: (data, at) => halfValue(data.readUInt16LE(at)),
  f4: (data, at) => data.readFloatLE(at),
  f8: (data, at) => data.readDoubleLE(at),
  u1: (data, at) => data.readUInt8(at),
  u2: (data, at) => data.readUInt16LE(at),
  u8: (data, at) => data.readBigUInt64LE(at),
  i1: (data, at) => data.readInt8(at),
  i4: (data, at) => data.readInt32LE(at),
  i8: (data, at) => data.readBigInt64LE(at),
};

/** Numbers as bytes of this type, little-endian. */
export function toBytes(numbers, dtype) {
  const size = DTYPE_BYTES[dtype];
  const out = Buffer.alloc(numbers.length * size);
  numbers.forEach((value, index) => WRITERS[dtype](out, index * size, value));
  return out;
}

export function fromBytes(data, dtype) {
  const size = DTYPE_BYTES[dtype];
  return Array.from({ length: data.length / size }, (_, index) => READERS[dtype](data, index * size));
}

const smallest = 2 ** -126;

/** 8-bit integers and a scale for each column, of a matrix in row order. */
export function quantise({ rows, columns, data }) {
  const scale = new Float64Array(columns);
  for (let i = 0; i < rows; i += 1) for (let k = 0; k < columns; k += 1) scale[k] = Math.max(scale[k], Math.abs(data[i * columns + k]));
  for (let k = 0; k < columns; k += 1) {
    scale[k] = Math.fround(scale[k] / 127);
    if (scale[k] < smallest) scale[k] = 0;
  }
  const values = Array.from(data, (value, index) => {
    const step = scale[index % columns];
    if (step === 0) return 0;
    const nearest = toEven(Math.abs(value / step)) * Math.sign(value);
    return Math.min(Math.max(nearest, -127), 127);
  });
  return { values, scale };
}

export const dequantise = (values, scale) => values.map((value, index) => Math.fround(Math.fround(scale[index % scale.length]) * value));

const chunksOf = (data, chunkBytes) =>
  Array.from({ length: Math.ceil(data.length / chunkBytes) }, (_, index) => data.subarray(index * chunkBytes, (index + 1) * chunkBytes));

const digestOfChunks = (digests) => labelled('odc/v1/array', ...digests);
export const arrayDigest = (data, chunkBytes = CHUNK_BYTES) => digestOfChunks(chunksOf(data, chunkBytes).map((chunk) => sha256(chunk)));

/** The stream of several arrays: each chunk behind its digest. */
export const arrayStream = (arrays, chunkBytes = CHUNK_BYTES) =>
  Buffer.concat(arrays.flatMap((data) => chunksOf(data, chunkBytes).flatMap((chunk) => [sha256(chunk), chunk])));

export const wholeDigest = (specs) => sha256(...specs.map((spec) => spec.digest));

/** Reads a stream as it comes; `feed` gives the chunks that are complete and good. */
export class StreamReader {
  constructor(specs, chunkBytes) {
    this.specs = specs;
    this.slots = specs.flatMap((spec, array) => {
      const size = arrayBytes(spec);
      return Array.from({ length: Math.ceil(size / chunkBytes) }, (_, index) => ({ array, size: Math.min(chunkBytes, size - index * chunkBytes) }));
    });
    this.length = this.slots.reduce((sum, { size }) => sum + 32 + size, 0);
    this.digests = specs.map(() => []);
    this.arrays = specs.map(() => []);
    this.next = 0;
    this.pending = Buffer.alloc(0);
  }

  * feed(bytes) {
    this.pending = Buffer.concat([this.pending, bytes]);
    while (this.next < this.slots.length && this.pending.length >= 32 + this.slots[this.next].size) {
      const { array, size } = this.slots[this.next];
      const [expected, data] = [this.pending.subarray(0, 32), this.pending.subarray(32, 32 + size)];
      const digest = sha256(data);
      if (!equal(digest, expected)) refuse('digest-mismatch', `chunk ${this.next} differs from its digest`);
      this.pending = this.pending.subarray(32 + size);
      this.next += 1;
      this.digests[array].push(digest);
      this.arrays[array].push(data);
      yield { array, data };
    }
    if (this.next === this.slots.length && this.pending.length) refuse('limit-exceeded', 'more bytes than the manifest promises');
  }

  /** The arrays, once every byte is there and every digest is the one that was signed. */
  finish() {
    if (this.next < this.slots.length) refuse('truncated', `${this.next} of ${this.slots.length} chunks have come`);
    return this.specs.map((spec, index) => {
      if (!equal(digestOfChunks(this.digests[index]), spec.digest)) refuse('digest-mismatch', `${spec.name} is not the array that was signed`);
      return Buffer.concat(this.arrays[index]);
    });
  }
}

const finite = (values) => {
  const row = values.findIndex((value) => !Number.isFinite(value));
  if (row >= 0) refuse('not-finite', `a number that is none, in place ${row}`);
};

/** What no uplink may have in an array: a NaN, a scale that is none, a label outside what the terms allow. */
export function checkValues({ name, dtype }, data, label) {
  if (name !== 'labels' && !dtype.startsWith('f')) return;
  const values = fromBytes(data, dtype);
  if (dtype.startsWith('f')) finite(values);
  if (name.endsWith('_scale') && values.some((value) => value < 0 || value > 2 ** 120)) refuse('not-finite', 'a scale that is none');
  if (name !== 'labels') return;
  const allowed = label.classes ? (value) => value < label.classes.length
    : label.labels ? (value) => value < 2 ** label.labels.length
    : (value) => Math.abs(value) <= 1 && (label.kind === 'number' || value !== 0);
  const row = values.findIndex((value) => !allowed(value));
  if (row >= 0) refuse('label-out-of-range', `the label of row ${row}`);
}

const SQUARES = {
  numeric: () => 1,
  categorical: () => 1,
  ranks: () => 1,
  range: (column) => {
    const [low, high, centre] = onScale(column);
    return ((2 * Math.max(high - centre, centre - low)) / (high - low)) ** 2;
  },
  ordinal: ({ centre }) => (1 + Math.abs(centre)) ** 2,
  levels: ({ shares, weight }) => {
    const squares = shares.reduce((sum, share) => sum + share * share, 0);
    return weight ** 2 * Math.max(...shares.map((share) => 1 - 2 * share + squares));
  },
};

/** b: the largest Euclidean length of an encoded row. */
export const longestRow = (columns) => Math.sqrt(columns.reduce((sum, column) => {
  const square = SQUARES[column.kind](column);
  const share = column.missing_share;
  if (typeof share !== 'number') return sum + square;
  const whereEmpty = column.empty === 'impute' ? square : 0;
  return sum + Math.max(square + share ** 2, whereEmpty + (1 - share) ** 2);
}, 0));

/** The largest length of a row of `rep` and of `anchor_rep`. */
export function longestOf(terms, { dither = 0 } = {}) {
  const longest = longestRow(terms.table_schema.columns);
  const m = schemaWidth(terms.table_schema);
  const anchor = { haar: 1, uniform: Math.sqrt(m), gaussian: Math.sqrt(m) + 10, public: longest }[terms.anchor.kind];
  return { rep: 1.001 * longest * (1 + 11 * dither), anchor_rep: 1.001 * anchor };
}
