// The state directory: whole files, written under another name first; secrets are for the owner alone.

import {
  closeSync, existsSync, fsyncSync, mkdirSync, openSync, readFileSync, renameSync, writeSync,
} from 'node:fs';
import { join } from 'node:path';

export class Home {
  constructor(path) {
    this.path = path;
    mkdirSync(path, { recursive: true, mode: 0o700 });
  }

  round(collaborationId) {
    return new Home(join(this.path, 'rounds', collaborationId));
  }

  has(name) {
    return existsSync(join(this.path, name));
  }

  read(name) {
    return readFileSync(join(this.path, name));
  }

  json(name) {
    return JSON.parse(this.read(name).toString());
  }

  write(name, content) {
    const path = join(this.path, name);
    const file = openSync(`${path}.new`, 'w', 0o600);
    try {
      writeSync(file, Buffer.from(content));
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    renameSync(`${path}.new`, path);
  }

  writeJson(name, value) {
    this.write(name, `${JSON.stringify(value, null, 1)}\n`);
  }
}
