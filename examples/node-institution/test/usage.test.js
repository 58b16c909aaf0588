import test from 'node:test';
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const MAIN = fileURLToPath(new URL('../src/main.js', import.meta.url));
const run = (...words) => spawnSync(process.execPath, [MAIN, ...words], { encoding: 'utf8' });

for (const words of [['--help'], ['-h'], ['join', '--help']]) {
  test(`usage: ${words.join(' ')}`, () => {
    const { status, stdout, stderr } = run(...words);
    assert.deepEqual([status, stderr], [0, '']);
    assert.match(stdout, /^usage: odc-node COMMAND\n/);
  });
}

for (const [why, ...words] of [[/Unknown option '--unknown'/, 'join', '--unknown'], [/--wait/, 'join', '--wait']]) {
  test(`usage: wrong words ${words.join(' ')}`, () => {
    const { status, stdout, stderr } = run(...words);
    assert.deepEqual([status, stdout], [2, '']);
    assert.match(stderr.split('\n')[0], why);
    assert.match(stderr, /\nusage: odc-node COMMAND\n/);
    assert.doesNotMatch(stderr, /TypeError|    at /);
  });
}

test('usage: no command', () => {
  const { status, stderr } = run();
  assert.equal(status, 2);
  assert.match(stderr, /^usage: /);
});
