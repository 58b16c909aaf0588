import test from 'node:test';
import assert from 'node:assert/strict';

import { sha256 } from '../src/bytes.js';
import { decode, encode } from '../src/layout.js';
import * as messages from '../src/messages.js';
import { terms } from '../src/terms.js';
import { judge, load, plain, whole } from './vectors.js';

export const layouts = {
  Terms: terms,
  ...Object.fromEntries(Object.entries(messages).map(([key, layout]) => [key[0].toUpperCase() + key.slice(1), layout])),
};

const sorted = (value) => JSON.stringify(value, (key, each) => (each !== null && typeof each === 'object' && !Array.isArray(each)
  ? Object.fromEntries(Object.entries(each).sort(([a], [b]) => (a < b ? -1 : 1))) : each));

for (const given of load('messages.json')) {
  test(`messages: ${given.name}`, () => {
    const layout = layouts[given.kind];
    const data = whole(given);
    const value = judge(given.verdict, () => decode(layout, data));
    if (given.verdict !== 'valid') return;
    assert.equal(sorted(plain(value)), sorted(given.value));
    assert.ok(encode(layout, value).equals(data));
    assert.equal(sha256(data).toString('hex'), given.sha256);
  });
}
