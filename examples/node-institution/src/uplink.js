// The uplink (sections 6, 8 and 11): what is computed from the rows, and how it is sent.

import {
  CHUNK_BYTES, arrayDigest, arrayStream, longestOf, quantise, toBytes, wholeDigest,
} from './arrays.js';
import { secretNormal } from './anchor.js';
import { labelType } from './columns.js';
import { refuse, OdcError } from './errors.js';
import { MESSAGE, mayPass } from './http.js';
import {
  fromRows, leading, matrix, multiply, rightSingularVectors, rowLength, transpose,
} from './matrix.js';
import { groupOf, latentDimsOf } from './terms.js';

/** Add noise of d times the root of the second moments of the rows, along every direction. */
export function dithered(rep, d) {
  if (!(d > 0) || rep.rows === 0) return rep;
  const axes = rightSingularVectors(rep);
  const along = multiply(rep, axes);
  const spread = Float64Array.from({ length: rep.columns }, (_, k) => {
    let sum = 0;
    for (let i = 0; i < rep.rows; i += 1) sum += along.data[i * rep.columns + k] ** 2;
    return Math.sqrt(sum / rep.rows);
  });
  const normal = secretNormal(rep.rows * rep.columns).map((z, index) => z * d * spread[index % rep.columns]);
  const noise = multiply(matrix(rep.rows, rep.columns, normal), transpose(axes));
  return matrix(rep.rows, rep.columns, rep.data.map((x, index) => x + noise.data[index]));
}

/** Of each class, 1 for the rows of it; none where all rows are of one. */
function classTargets(labels) {
  const classes = [...new Set(labels)];
  return classes.length < 2 ? [] : classes.map((each) => labels.map((label) => (each === label ? 1 : 0)));
}

/** Of each label that some rows have and others do not, 1 for the rows that have it, divided by its standard deviation. */
function labelTargets(labels, count) {
  return Array.from({ length: count }, (_, j) => labels.map((label) => Math.floor(label / 2 ** j) % 2)).flatMap((has) => {
    const share = has.reduce((sum, each) => sum + each, 0) / has.length;
    return share > 0 && share < 1 ? [has.map((each) => each / Math.sqrt(share * (1 - share)))] : [];
  });
}

/** R squared of what the leading axes keep of a ridge regression of the labels on the rows; null where none can be told. */
export function signalKept(rows, labels, latentDim, label) {
  const targets = label?.kind === 'multilabel' ? labelTargets(labels, label.labels.length) : classTargets(labels);
  if (targets.length === 0) return null;
  const target = fromRows(labels.map((_, row) => targets.map((each) => each[row])), targets.length);
  const [x, y] = [centred(rows), centred(target)];
  const axes = rightSingularVectors(x);
  const along = multiply(x, axes);
  const squares = Array.from({ length: x.columns }, (_, k) => {
    let sum = 0;
    for (let i = 0; i < x.rows; i += 1) sum += along.data[i * x.columns + k] ** 2;
    return sum;
  });
  const penalty = squares.reduce((sum, each) => sum + each, 0) / x.columns / 100;
  const weights = multiply(transpose(along), y);
  const scaled = matrix(weights.rows, weights.columns, weights.data.map((w, index) => w / (squares[Math.floor(index / weights.columns)] + penalty)));
  const w = multiply(axes, scaled);
  const first = leading(rightSingularVectors(rows), latentDim);
  const projected = multiply(first, multiply(transpose(first), w));
  const [score, kept] = [multiply(x, w).data, multiply(x, projected).data];
  const all = score.reduce((sum, each) => sum + each ** 2, 0);
  return all > 0 ? 1 - score.reduce((sum, each, index) => sum + (each - kept[index]) ** 2, 0) / all : null;
}

function centred(a) {
  const means = new Float64Array(a.columns);
  a.data.forEach((value, index) => { means[index % a.columns] += value / a.rows; });
  return matrix(a.rows, a.columns, a.data.map((value, index) => value - means[index % a.columns]));
}

function checkLengths(name, values, longest) {
  for (let row = 0; row < values.rows; row += 1) {
    if (!(rowLength(values, row) <= longest)) refuse('row-too-long', `row ${row} of ${name} is longer than it can be`);
  }
}

/** Make the arrays of an uplink: their specs and their bytes. */
export function makeArrays(terms, rep, anchorRep, labels) {
  const longest = longestOf(terms, { dither: terms.dither ?? 0 });
  checkLengths('rep', rep, longest.rep);
  checkLengths('anchor_rep', anchorRep, longest.anchor_rep);
  const shaped = (values) => [values.rows, values.columns];
  const arrays = [];
  const add = (name, dtype, shape, numbers) => arrays.push({ name, dtype, shape, data: toBytes(numbers, dtype) });
  const scales = [];
  for (const [name, values] of [['rep', rep], ['anchor_rep', anchorRep]]) {
    const scaled = terms.rep_dtype === 'i1' ? quantise(values) : null;
    add(name, terms.rep_dtype, shaped(values), scaled ? scaled.values : values.data);
    if (scaled) scales.push([`${name}_scale`, scaled.scale]);
  }
  add('labels', labels.dtype, [labels.values.length], labels.values);
  for (const [name, scale] of scales) add(name, 'f4', [scale.length], scale);
  return {
    specs: arrays.map(({ name, dtype, shape, data }) => ({ name, dtype, shape, digest: arrayDigest(data, CHUNK_BYTES) })),
    stream: arrayStream(arrays.map(({ data }) => data), CHUNK_BYTES),
    payloadBytes: arrays.reduce((sum, { data }) => sum + data.length, 0),
  };
}

/** Require that a manifest is what the terms promise. */
export function checkManifest(manifest, terms) {
  const [rep, anchorRep, labels] = manifest.arrays;
  const label = terms.table_schema.label_column;
  const group = groupOf(terms, manifest.party);
  if ((manifest.arrays.at(-1).name === 'row_keys') !== (group !== undefined)) refuse('terms-mismatch', 'row keys go with joined rows');
  if (group !== undefined && rep.shape[0] === 0) refuse('terms-mismatch', 'no rows to join');
  if (group !== undefined && (labels.shape[0] > 0) !== (group.labels === manifest.party)) refuse('terms-mismatch', 'labels of another than the terms say');
  const [least, most] = latentDimsOf(terms, manifest.party);
  const [, latent] = rep.shape;
  if (!(latent >= least && latent <= most) || anchorRep.shape[0] !== terms.anchor.rows || anchorRep.shape[1] !== latent) refuse('shape-mismatch', 'arrays of other shapes than the terms say');
  if (rep.dtype !== terms.rep_dtype || anchorRep.dtype !== terms.rep_dtype || labels.dtype !== labelType(label)) refuse('dtype-mismatch', 'arrays of other types than the terms say');
  if ((manifest.privacy.dither ?? 0) < (terms.dither ?? 0)) refuse('terms-mismatch', 'less dither than the terms ask for');
}

const TRIES = 20;

/** Send an uplink whose manifest is signed, from wherever the analyst stands, until there is a receipt. */
export async function sendUplink(connection, collaborationId, signedManifest, specs, stream) {
  const begun = await connection.json('POST', `/v1/collaborations/${collaborationId}/uplinks`, {
    body: signedManifest, headers: { 'content-type': MESSAGE },
  });
  const path = `/v1/uploads/${begun.upload_id}`;
  const digest = `sha-256=:${wholeDigest(specs).toString('base64')}:`;
  let at = begun.complete ? stream.length : begun.offset + begun.begun;
  let afresh = false; // whether the chunk that had begun was given up
  for (let left = TRIES; ; left -= 1) {
    if (!(Number.isSafeInteger(at) && at >= 0 && at <= stream.length)) refuse('malformed-message', 'an upload that stands at a byte outside of the stream');
    try {
      const answer = await connection.ask('PATCH', path, {
        attempts: 1, body: stream.subarray(at),
        headers: { 'content-type': 'application/partial-upload', 'upload-offset': String(at), 'upload-complete': '?1', 'odc-whole-digest': digest, 'repr-digest': digest },
      });
      return answer.body;
    } catch (error) {
      if (left === 0) throw error;
      at = await whereNext(connection, path, error, afresh);
      afresh = error.slug === 'digest-mismatch';
    }
  }
}

async function whereNext(connection, path, error, afresh) {
  if (error.slug === 'offset-mismatch' && Number.isSafeInteger(error.expected)) return error.expected;
  const waits = error instanceof OdcError && mayPass(error);
  const again = waits || !(error instanceof OdcError) || (error.slug === 'digest-mismatch' && !afresh);
  if (!again) throw error;
  if (waits) await connection.wait((error.retryAfterSeconds ?? 1) * (1 + Math.random() / 2));
  const { headers } = await connection.ask('HEAD', path);
  const offset = Number(headers['upload-offset']);
  return error.slug === 'digest-mismatch' ? offset : offset + Number(headers['upload-begun'] ?? 0);
}
