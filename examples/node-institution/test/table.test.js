import test from 'node:test';
import assert from 'node:assert/strict';

import { encodeField, readNumber, trimmed } from '../src/table.js';
import { judge, load } from './vectors.js';

const odd = load('odd_inputs.json');
const WIDE = { kind: 'range', name: 'x', low: -1024, high: 1024, centre: 0, empty: 'centre', missing_share: 0 };

/** What a field is: the features of it, and last, whether it is empty. */
function judged(column, { missing, field }, expected) {
  const features = judge(expected === 'refused' ? 'input-error' : 'valid', () => encodeField(column, missing, field));
  if (features !== undefined) assert.equal(features.at(-1), expected === 'empty' ? 1 : 0);
  return features;
}

odd.numbers.forEach((given, index) => {
  test(`odd numbers: ${index}`, () => {
    const features = judged(WIDE, given, given.number);
    if (typeof given.number !== 'number') return;
    assert.ok(Object.is(readNumber(trimmed(given.field)), given.number));
    assert.ok(Math.abs(features[0] - Math.min(Math.max(given.number, -1024), 1024) / 1024) <= 1e-15);
  });
});

odd.levels.forEach((given, index) => {
  test(`odd levels: ${index}`, () => {
    const { levels } = given;
    const column = { kind: 'levels', name: 'x', levels, shares: levels.map(() => 0), weight: 1, empty: 'centre', missing_share: 0 };
    const features = judged(column, given, given.level);
    if (typeof given.level === 'number') assert.equal(features.indexOf(1), given.level);
  });
});

odd.typed.forEach((given, index) => {
  test(`odd typed: ${index}`, { skip: given.type !== 'text' && 'a CSV file has texts alone' }, () => {
    assert.equal(trimmed(given.value), given.text);
  });
});
