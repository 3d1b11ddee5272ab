import js from '@eslint/js';
import tseslint from 'typescript-eslint';

const plainScripts = ['**/*.js', '**/*.mjs', '**/*.cjs'];

export default tseslint.config(
  { ignores: ['dist/', 'node_modules/', 'sdk/openapi.d.ts', '.relayops/', '.bench/'] },
  js.configs.recommended,
  ...tseslint.configs.recommendedTypeChecked,
  {
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/switch-exhaustiveness-check': 'error',
      '@typescript-eslint/consistent-type-imports': 'error',
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }],
      '@typescript-eslint/require-await': 'off',
      '@typescript-eslint/restrict-template-expressions': [
        'error',
        { allowNumber: true, allowBoolean: true },
      ],
      'no-console': 'error',
      'no-empty': ['error', { allowEmptyCatch: false }],
      eqeqeq: ['error', 'always', { null: 'ignore' }],
    },
  },
  {
    // Configuration enters in one place and is passed on as a value from there.
    files: ['src/**/*.ts', 'sdk/**/*.ts'],
    ignores: ['src/config/**', 'src/cli/**', '**/*.test.ts'],
    rules: {
      'no-restricted-properties': [
        'error',
        {
          object: 'process',
          property: 'env',
          message: 'Only src/config and src/cli read the environment; take a Config instead.',
        },
      ],
      'no-restricted-imports': [
        'error',
        {
          paths: ['process', 'node:process'].map((name) => ({
            name,
            importNames: ['env'],
            message: 'Only src/config and src/cli read the environment; take a Config instead.',
          })),
        },
      ],
    },
  },
  {
    files: ['scripts/**'],
    rules: { 'no-console': 'off' },
  },
  { files: plainScripts, ...tseslint.configs.disableTypeChecked },
  {
    files: plainScripts,
    languageOptions: { globals: { process: 'readonly', console: 'readonly', module: 'writable' } },
  },
);
