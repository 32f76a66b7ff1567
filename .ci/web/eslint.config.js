import js from "@eslint/js";
import globals from "globals";

export default [
  js.configs.recommended,
  {
    languageOptions: { globals: globals.browser },
    rules: {
      curly: ["error", "multi-line"],
      eqeqeq: "error",
      "no-shadow": "error",
      "no-unused-vars": "error",
      "no-var": "error",
      "max-len": ["error", { code: 120 }],
      "prefer-const": "error",
    },
  },
];
