// Makes dist/: the app in one file each of script and style.

import { build } from 'esbuild';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';

rmSync('dist', { recursive: true, force: true });
mkdirSync('dist');
await build({
  entryPoints: ['app/main.jsx'],
  outfile: 'dist/main.js',
  bundle: true,
  format: 'esm',
  jsx: 'automatic',
  minify: true,
  logLevel: 'warning',
  define: { 'process.env.NODE_ENV': '"production"' },
  loader: { '.woff': 'empty', '.woff2': 'empty', '.ttf': 'empty' },
});
writeFileSync(
  'dist/index.html',
  '<!doctype html><meta charset="utf-8"><title>CopilotKit</title><link rel="stylesheet" href="main.css">'
    + '<link rel="icon" href="data:,"><div id="app"></div><script type="module" src="main.js"></script>\n',
);
