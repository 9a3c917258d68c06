/*
 * Turns the rows of a group into functions and a table. The including file defines BAD_INPUT_ROWS
 * (the .inc, quoted) and BAD_INPUT_TABLE (the table's name).
 */
#define ROW(name, expected, word, ...)            \
  static ucxx_status_t row_##name(fixture_t *f) { \
    (void)f;                                      \
    return __VA_ARGS__;                           \
  }
#include BAD_INPUT_ROWS
#undef ROW

extern const bad_input_row_t BAD_INPUT_TABLE[];
#define ROW(name, expected, word, ...) {#name, row_##name, expected, word},
const bad_input_row_t BAD_INPUT_TABLE[] = {
#include BAD_INPUT_ROWS
    {NULL, NULL, UCXX_OK, NULL}};
#undef ROW
