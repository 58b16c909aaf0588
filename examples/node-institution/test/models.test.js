import test from 'node:test';
import assert from 'node:assert/strict';

import { evaluate } from '../src/evaluate.js';
import { fromRows } from '../src/matrix.js';
import { readModel } from '../src/onnx.js';
import { judge, load, whole } from './vectors.js';

const { rep, models } = load('models.json');
const NOT_EVALUATED = ['a tree'];
const near = (found, expected) => {
  assert.equal(found.data.length, expected.flat().length);
  expected.flat().forEach((value, index) => assert.ok(Math.abs(found.data[index] - value) <= 1e-6, `${found.data[index]} for ${value}`));
};
const answer = (file, rows) => evaluate(readModel(file), 'probabilities', fromRows(rows, rows[0].length));

for (const given of models) {
  const isRead = NOT_EVALUATED.includes(given.name);
  test(`models: ${given.name}`, () => {
    const file = whole(given);
    if (isRead) return readModel(file);
    return judge(given.verdict, () => {
      try {
        near(answer(file, rep), given.probabilities ?? []);
        rep.forEach((row, index) => near(answer(file, [row]), [given.probabilities[index]]));
      } catch (error) {
        assert.doesNotMatch(error.message, /does not evaluate/); // refused for what it is
        throw error;
      }
    });
  });
}
