#!/usr/bin/env node
/**
 * Writes src/config/options.generated.ts, which git does not keep: the settings as an interface, since types
 * inferred from zod carry no documentation. Part of every build and check.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const require = createRequire(import.meta.url);
const { source } = require('./docs/sources.cjs');
const { optionsInterface } = require('./docs/options-interface.cjs');

const file = join(import.meta.dirname, '../src/config/options.generated.ts');
const wanted = optionsInterface({ ...source('config/json-schema'), ...source('losses/registry') });

function found() {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if (error.code === 'ENOENT') return null;
    throw error;
  }
}

// An unchanged file keeps its time, so that incremental type checks stay fast.
if (found() !== wanted) writeFileSync(file, wanted);
