// Columns and labels of the terms (section 6): their layouts and how many features each has.

import {
  float, integer, list, name, nullable, one, optional, record, short, tagged,
} from './layout.js';

export const MAX_COLUMNS = 65536;
const number = float();
const levels = list(name, 2, MAX_COLUMNS, { distinct: true });
const emptiness = {
  empty: one('refuse', 'centre', 'impute'), missing_share: nullable(float({ low: 0, high: 1 })), missing: optional(list(short(200), 1, 256)),
};
const days = {
  dates: optional(one('iso', 'dd.mm.yyyy', 'dd/mm/yyyy', 'mm/dd/yyyy', 'yyyy/mm/dd', 'yyyymmdd', 'ddmmyyyy', 'mmddyyyy')),
  since: optional(name),
};

function rangeRule({ low, high }, fail) {
  if (!(low < high) || !Number.isFinite(high - low)) fail('low is not below high');
}

function emptyRule({ empty, missing_share: share, impute }, fail) {
  if (share !== null && empty === 'refuse') fail('a share of empty fields that are refused');
  if ((empty === 'impute') !== (impute !== undefined)) fail('a value for empty fields, or none');
}

function imputedLevelRule({ levels: known, impute }, fail) {
  if (impute !== undefined && !known.includes(impute)) fail('imputes another level');
}

/** The ends of a range and its centre, or their logarithms. */
export const onScale = ({ low, high, centre, scale }) => (scale === undefined ? [low, high, centre] : [low, high, centre].map(Math.log));

function scaleRule(value, fail) {
  if (value.scale === undefined) return;
  if (value.dates !== undefined && value.since === undefined) fail('logarithms of dates');
  if (value.low <= 0 || !(value.high >= 1.001 * value.low)) fail('a range too narrow for logarithms');
}

function dateRule({ name: own, dates, since }, fail) {
  if (since === undefined) return;
  if (dates === undefined) fail('since a day, without dates');
  if (since === own) fail('since itself');
}

const both = (...rules) => (value, fail) => rules.forEach((rule) => rule(value, fail));

export const column = tagged('kind', {
  numeric: record(
    { kind: one('numeric'), name, low: number, high: number, impute: nullable(number), out_of_range: one('refuse', 'clip') },
    both(rangeRule, ({ low, high, impute }, fail) => {
      if (impute !== null && (impute < low || impute > high)) fail('imputes outside its range');
    }),
  ),
  categorical: record({ kind: one('categorical'), name, levels, impute: nullable(name) }, (value, fail) => {
    if (value.impute !== null && !value.levels.includes(value.impute)) fail('imputes another level');
  }),
  ranks: record(
    { kind: one('ranks'), name, quantiles: list(number, 2, 1001), impute: optional(number), ...emptiness, ...days },
    both(emptyRule, dateRule, ({ quantiles, impute }, fail) => {
      if (quantiles.some((each, index) => index > 0 && each < quantiles[index - 1])) fail('quantiles that descend');
      rangeRule({ low: quantiles[0], high: quantiles.at(-1) }, fail);
      if (impute < quantiles[0] || impute > quantiles.at(-1)) fail('imputes beyond its quantiles');
    }),
  ),
  range: record(
    {
      kind: one('range'), name, low: number, high: number, centre: number, scale: optional(one('logarithm')), impute: optional(number), ...emptiness, ...days,
    },
    both(rangeRule, emptyRule, dateRule, scaleRule, ({ low, high, centre, impute }, fail) => {
      if (centre < low || centre > high) fail('a centre outside its range');
      if (impute < low || impute > high) fail('imputes outside its range');
    }),
  ),
  levels: record(
    {
      kind: one('levels'), name, levels, shares: list(float({ low: 0, high: 1 }), 2, MAX_COLUMNS),
      weight: float({ above: 0, high: 1 }), impute: optional(name), ...emptiness, other: optional(name),
    },
    both(emptyRule, imputedLevelRule, (value, fail) => {
      if (value.shares.length !== value.levels.length) fail('not a share for every level');
      if (value.other !== undefined && !value.levels.includes(value.other)) fail('other texts are no level');
    }),
  ),
  ordinal: record(
    { kind: one('ordinal'), name, levels, centre: float({ low: -1, high: 1 }), impute: optional(name), ...emptiness },
    both(emptyRule, imputedLevelRule),
  ),
});

export const label = tagged('kind', {
  number: record({ kind: one('number'), name, low: number, high: number }, rangeRule),
  survival: record(
    {
      kind: one('survival'), name, event: name, seen: name, censored: name,
      horizon: float({ above: 0, high: 1e12 }), times: list(number, 1, 64),
    },
    ({ name: own, event, seen, censored, horizon, times }, fail) => {
      if (event === own) fail('the event is the time');
      if (seen === censored) fail('seen and censored are the same');
      if (times.some((each, index) => index > 0 && each <= times[index - 1])) fail('times that do not ascend');
      if (times[0] < horizon / 2 ** 20 || times.at(-1) > horizon) fail('a time outside the horizon');
    },
  ),
  multilabel: record(
    {
      kind: one('multilabel'),
      labels: list(record({ name, absent: name, present: name }, ({ absent, present }, fail) => {
        if (absent === present) fail('absent and present are the same');
      }), 2, 16),
    },
    ({ labels }, fail) => {
      if (new Set(labels.map((each) => each.name)).size < labels.length) fail('a label twice');
    },
  ),
}, record({ name, classes: list(name, 2, MAX_COLUMNS, { distinct: true }) }));

/** The number type of labels on the wire. */
export function labelType({ classes, labels }) {
  if (classes === undefined && labels === undefined) return 'f4';
  return (classes ?? []).length <= 256 && (labels ?? []).length <= 8 ? 'u1' : 'u2';
}

/** How many features a column has. */
export const width = (each) =>
  (each.kind === 'categorical' || each.kind === 'levels' ? each.levels.length : 1)
  + (typeof each.missing_share === 'number' ? 1 : 0);

export const schemaWidth = (schema) => schema.columns.reduce((sum, each) => sum + width(each), 0);

export const schema = record(
  { columns: list(column, 1, MAX_COLUMNS), label_column: label, missing: list(short(200), 0, MAX_COLUMNS) },
  (value, fail) => {
    const { name: own, event, labels: several = [] } = value.label_column;
    const labels = [own, event, ...several.map((each) => each.name)].filter((each) => each !== undefined);
    const names = [...value.columns.map((each) => each.name), ...labels];
    if (new Set(names).size < names.length) fail('a column twice');
    if (value.columns.some((each) => labels.includes(each.since))) fail('days since the label');
    if (schemaWidth(value) > MAX_COLUMNS) fail(`more than ${MAX_COLUMNS} features`);
  },
);

export const ROWS = integer(1, 2147483647);
