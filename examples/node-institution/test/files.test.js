import test from 'node:test';
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';

import { FOLDER } from './vectors.js';

/** Files of vectors that no test here reads, and why. */
const EXCLUDED = {
  'sums.json': 'this client takes no part in rounds with sums',
  'codings.json': 'this client asks for no coding and answers in none',
};
/** Those of which some cases are skipped where they are read; the others are read whole. */
const IN_PART = {
  'sealing.json': 'other suites than x25519',
  'plain_words.json': 'terms with sums',
  'odd_inputs.json': 'values of a type: a CSV file has texts alone',
  'models.json': 'a tree is read and not evaluated',
};

const here = new URL('.', import.meta.url);
const sources = readdirSync(here).filter((name) => name.endsWith('.test.js') && name !== 'files.test.js').map((name) => readFileSync(new URL(name, here), 'utf8')).join('');
const isRead = (name) => sources.includes(`load('${name}')`);

for (const name of readdirSync(FOLDER).filter((each) => each.endsWith('.json'))) {
  test(`${name} is read by a test, or left out with a reason`, () => assert.equal(isRead(name), EXCLUDED[name] === undefined));
}

test('what is left out is there', () => {
  for (const name of Object.keys({ ...EXCLUDED, ...IN_PART })) assert.ok(readdirSync(FOLDER).includes(name), name);
});

test('the README names what is left out', () => {
  const readme = readFileSync(new URL('../README.md', here), 'utf8');
  for (const name of Object.keys({ ...EXCLUDED, ...IN_PART })) assert.ok(readme.includes(`\`${name}\``), name);
});
