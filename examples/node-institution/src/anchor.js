// The anchor from its seed (section 7), and the secret basis from the rows.

import { createCipheriv, randomBytes } from 'node:crypto';

import { derive } from './bytes.js';
import { refuse } from './errors.js';
import { leading, matrix, multiply, orthogonalFactor, rightSingularVectors } from './matrix.js';

const MAX_KEY_STREAM_BYTES = 2 ** 38;

export const keyStream = (seed, kind, length) =>
  createCipheriv('chacha20', derive(seed, `odc/v1/anchor/${kind}`), Buffer.alloc(16)).update(Buffer.alloc(length));

/** Numbers in [0, 1) of 8 bytes each, little-endian: the upper 53 bits. */
function uniform(stream) {
  const out = new Float64Array(stream.length / 8);
  for (let i = 0; i < out.length; i += 1) out[i] = Number(stream.readBigUInt64LE(8 * i) >> 11n) * 2 ** -53;
  return out;
}

/** Gaussian numbers of pairs of uniform ones (Box and Muller). */
function gaussian(u, count) {
  const out = new Float64Array(u.length);
  for (let i = 0; i < u.length; i += 2) {
    const radius = Math.sqrt(-2 * Math.log(1 - u[i]));
    out[i] = radius * Math.cos(2 * Math.PI * u[i + 1]);
    out[i + 1] = radius * Math.sin(2 * Math.PI * u[i + 1]);
  }
  return out.subarray(0, count);
}

/** A of `rows` x `features` from the seed. */
export function expand(seed, kind, rows, features) {
  const count = rows * features;
  if (8 * count > MAX_KEY_STREAM_BYTES) refuse('limit-exceeded', 'an anchor longer than the key stream');
  const numbers = uniform(keyStream(seed, kind, 8 * (kind === 'uniform' ? count : count + (count % 2))));
  if (kind === 'uniform') return matrix(rows, features, numbers);
  const normal = matrix(rows, features, gaussian(numbers, count));
  return kind === 'haar' ? orthogonalFactor(normal) : normal;
}

/** Standard normal numbers that nobody can repeat. */
export const secretNormal = (count) => gaussian(uniform(randomBytes(8 * (count + (count % 2)))), count);

/** F_i: the leading right singular vectors of the rows, turned by a matrix that nobody else knows. */
export function drawBasis(rows, latentDim) {
  const turn = orthogonalFactor(matrix(latentDim, latentDim, secretNormal(latentDim ** 2)));
  return multiply(leading(rightSingularVectors(rows), latentDim), turn);
}
