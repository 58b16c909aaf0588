// From a table to a matrix (section 6). A row is an object: name of the column -> text, or null.

import { refuse } from './errors.js';
import { readDate } from './dates.js';
import { fromRows } from './matrix.js';
import { labelType, onScale, schemaWidth, width } from './columns.js';

const wrong = (column, what) => refuse('input-error', `column ${column.name}: ${what}`);
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/;
const WHOLE_NUMBER = /^(-?[0-9]+)(\.0+)?$/;
const BOOLEANS = ['True', 'TRUE', 'False', 'FALSE'];
const WHITE_SPACE = '[\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]+'; // those of the document, not those of \\s
const OUTER = new RegExp(`^${WHITE_SPACE}|${WHITE_SPACE}$`, 'g');

/** A field without the white space around it. */
export const trimmed = (field) => (field === null || field === undefined ? null : field.replace(OUTER, ''));

/** The finite number in 64-bit floats that a text is, or null. */
export function readNumber(field) {
  const value = NUMBER.test(field) ? Number(field) : NaN;
  return Number.isFinite(value) ? value : null;
}

const numberOf = (column, field) => readNumber(field) ?? wrong(column, 'not a number');

/** A whole number without point and zeros, a boolean in small letters, any other text as it is. */
const plain = (text) => (BOOLEANS.includes(text) ? text.toLowerCase() : text.match(WHOLE_NUMBER)?.[1] ?? text);

/** The place of a text, or of another spelling of it, in a list; -1 for none. */
function placeAmong(texts, field) {
  const exact = texts.indexOf(field);
  return exact >= 0 ? exact : texts.findIndex((each) => plain(each) === plain(field));
}

const levelOf = (column, field) => placeAmong(column.levels, field);

/** Whether a field of a column is empty, a number also if it is equal to one that stands for an empty field. */
function isEmptyIn(column, missing, field) {
  if (field === null || missing.includes(field)) return true;
  if (column.levels !== undefined) return levelOf(column, field) < 0 && placeAmong(missing, field) >= 0;
  if (placeAmong(missing, field) >= 0) return true;
  if (column.dates !== undefined) return false;
  const number = readNumber(field);
  return number !== null && missing.some((each) => readNumber(each) === number);
}

function indicator(column, level) {
  if (column.kind === 'categorical') return column.levels.map((_, index) => (index === level ? 1 : 0));
  return column.shares.map((share, index) => column.weight * ((index === level ? 1 : 0) - share));
}

function ranked({ quantiles }, x) {
  const last = quantiles.length - 1;
  const at = Math.min(Math.max(x, quantiles[0]), quantiles[last]);
  const below = quantiles.filter((each) => each < at).length;
  const upTo = quantiles.filter((each) => each <= at).length;
  const position = upTo > below ? (below + upTo - 1) / 2
    : below - 1 + (at - quantiles[below - 1]) / (quantiles[below] - quantiles[below - 1]);
  return (2 * position) / last - 1;
}

/** The features of one field that is no empty one, or null where the field is empty after all. */
const ENCODERS = {
  numeric(column, field) {
    const x = numberOf(column, field);
    if ((x < column.low || x > column.high) && column.out_of_range === 'refuse') wrong(column, 'a number out of range');
    return [((Math.min(Math.max(x, column.low), column.high) - column.low) / (column.high - column.low)) * 2 - 1];
  },
  ranks: (column, field, since) => [ranked(column, measured(column, field, since))],
  range(column, field, since) {
    const x = Math.min(Math.max(measured(column, field, since), column.low), column.high);
    const [low, high, centre] = onScale(column);
    return [(2 * ((column.scale === undefined ? x : Math.log(x)) - centre)) / (high - low)];
  },
  ordinal(column, field) {
    const level = levelOf(column, field);
    if (level < 0) wrong(column, 'no level');
    return [(2 * level) / (column.levels.length - 1) - 1 - column.centre];
  },
  categorical(column, field) {
    const level = levelOf(column, field);
    return level < 0 ? wrong(column, 'no level') : indicator(column, level);
  },
  levels(column, field) {
    const level = levelOf(column, field);
    if (level < 0 && column.other === undefined) wrong(column, 'no level');
    return indicator(column, level < 0 ? column.levels.indexOf(column.other) : level);
  },
};

function measured(column, field, since) {
  if (column.dates === undefined) return numberOf(column, field);
  const day = (text) => readDate(text, column.dates) ?? wrong(column, `not a day as ${column.dates}`);
  const microseconds = since === undefined ? day(field) : day(field) - day(since);
  return Number(microseconds) / 86400000000;
}

/** Encode one field; `since` is the field of the column that a duration counts from. */
export function encodeField(column, missing, rawField, rawSince) {
  const field = trimmed(rawField);
  const since = column.since === undefined ? undefined : trimmed(rawSince);
  const isLevel = field !== null && column.levels?.includes(field);
  const isEmpty = (text) => isEmptyIn(column, [...missing, ...(column.missing ?? [])], text);
  const empty = !isLevel && (isEmpty(field) || (since !== undefined && isEmpty(since)));
  const flag = typeof column.missing_share === 'number' ? [(empty ? 1 : 0) - column.missing_share] : [];
  if (!empty) return [...ENCODERS[column.kind](column, field, since), ...flag];
  if (column.impute !== undefined && column.impute !== null) {
    const alone = { ...column, dates: undefined, since: undefined }; // a day to impute is a number already
    return [...ENCODERS[column.kind](alone, String(column.impute)), ...flag];
  }
  if (column.empty !== 'centre') wrong(column, 'an empty field');
  return [...new Array(width(column) - flag.length).fill(0), ...flag];
}

/** X: all rows, column by column of the schema. */
export function encodeRows(schema, rows) {
  const encoded = rows.map((row) => schema.columns.flatMap((column) => {
    for (const name of [column.name, column.since]) if (name !== undefined && !Object.hasOwn(row, name)) wrong(column, 'not in the table');
    return encodeField(column, schema.missing, row[column.name], row[column.since]);
  }));
  return fromRows(encoded, schemaWidth(schema));
}

/** The place of a label among the classes; -1 if it is none of them or empty. */
function classOf(classes, missing, field) {
  const label = { levels: classes };
  return field === null || (!classes.includes(field) && isEmptyIn(label, missing, field)) ? -1 : levelOf(label, field);
}

/** Several labels of a row: bit j is that of label j. */
function bits(labels, missing, row) {
  return labels.reduce((sum, { name, absent, present }, j) => {
    const index = classOf([absent, present], missing, trimmed(row[name]));
    return index < 0 ? wrong({ name }, 'an unknown or empty label') : sum + index * 2 ** j;
  }, 0);
}

/** The labels as on the wire, and their number type. */
export function encodeLabels(schema, rows) {
  const label = schema.label_column;
  if (label.kind === 'survival') refuse('input-error', 'this client sends no survival times');
  if (label.kind === 'multilabel') return { values: rows.map((row) => bits(label.labels, schema.missing, row)), dtype: labelType(label) };
  const values = rows.map((row) => {
    const field = trimmed(row[label.name]);
    if (label.kind === 'number') {
      const y = isEmptyIn(label, schema.missing, field) ? wrong(label, 'an empty label') : numberOf(label, field);
      if (y < label.low || y > label.high) wrong(label, 'a number out of range');
      return 2 * ((y - label.low) / (label.high - label.low)) - 1;
    }
    const index = classOf(label.classes, schema.missing, field);
    return index < 0 ? wrong(label, 'an unknown or empty label') : index;
  });
  return { values, dtype: labelType(label) };
}

/** A CSV text with a header (RFC 4180) as rows. */
export function readCsv(text) {
  const records = [[]];
  const field = /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|$)/gy;
  const body = text.replace(/^\ufeff/, '').replace(/\r?\n$/, '');
  for (let found = field.exec(body); found; found = field.exec(body)) {
    records.at(-1).push(found[1] === undefined ? found[2] : found[1].replaceAll('""', '"'));
    if (field.lastIndex >= body.length && found[3] !== ',') break;
    if (found[3] !== ',') records.push([]);
  }
  const [header, ...rows] = records;
  if (field.lastIndex < body.length || rows.some((row) => row.length !== header.length)) refuse('unreadable-file', 'not a CSV file with a header');
  return rows.map((row) => Object.fromEntries(header.map((name, index) => [name, row[index]])));
}
