/* Bad input: addresses, including bytes that are damaged at random. See bad_input.h. */
#include "bad_input.h"

/* The status of all attempts if they agree; otherwise a status that no row expects, and a text that
 * names the differing attempt. */
typedef struct verdict {
  ucxx_status_t status;
  int any;
} verdict_t;

static void attempt(fixture_t *f, verdict_t *verdict, const void *data, size_t length,
                    size_t number) {
  ucxx_status_t status = ucxx_address_from_bytes(data, length, &f->out.address);
  if (status == UCXX_OK) FAIL("attempt %zu with %zu damaged bytes was accepted", number, length);
  if (verdict->any && status != verdict->status)
    FAIL("attempt %zu gave %s", number, ucxx_status_name(status));
  verdict->status = status;
  verdict->any = 1;
}

static ucxx_status_t from_filled(fixture_t *f, int byte) {
  verdict_t verdict = {0, 0};
  memset(f->bytes, byte, BYTES);
  for (size_t length = 1; length <= BYTES; length += length < 300 ? 1 : 97)
    attempt(f, &verdict, f->bytes, length, length);
  return verdict.status;
}

static ucxx_status_t from_random(fixture_t *f) {
  verdict_t verdict = {0, 0};
  for (size_t round = 0; round < 2000; round++) {
    test_fill(f->bytes, BYTES, test_mix(round));
    attempt(f, &verdict, f->bytes, 1 + (size_t)(test_mix(round) % BYTES), round);
  }
  return verdict.status;
}

/* In `data` the address is followed by room for a second one. */
static ucxx_status_t with_address(fixture_t *f, void (*damage)(fixture_t *f, verdict_t *verdict,
                                                               uint8_t *data, size_t length)) {
  ucxx_address_t *address = NULL;
  verdict_t verdict = {0, 0};
  CHECK_OK(ucxx_worker_address(f->worker, &address));
  size_t length = ucxx_address_length(address);
  uint8_t *data = test_alloc(2 * length);
  memcpy(data, ucxx_address_data(address), length);
  ucxx_address_destroy(address);
  damage(f, &verdict, data, length);
  free(data);
  return verdict.status;
}

static void each_bit_flipped(fixture_t *f, verdict_t *verdict, uint8_t *data, size_t length) {
  for (size_t bit = 0; bit < length * 8; bit++) {
    data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    attempt(f, verdict, data, length, bit);
    data[bit / 8] ^= (uint8_t)(1 << bit % 8);
  }
}

static void each_truncation(fixture_t *f, verdict_t *verdict, uint8_t *data, size_t length) {
  for (size_t left = 0; left < length; left++) attempt(f, verdict, data, left, left);
}

static void front_cut(fixture_t *f, verdict_t *verdict, uint8_t *data, size_t length) {
  for (size_t cut = 1; cut < length; cut++) attempt(f, verdict, data + cut, length - cut, cut);
}

static void byte_appended(fixture_t *f, verdict_t *verdict, uint8_t *data, size_t length) {
  for (int byte = 0; byte < 256; byte++) {
    data[length] = (uint8_t)byte;
    attempt(f, verdict, data, length + 1, (size_t)byte);
  }
}

static void doubled(fixture_t *f, verdict_t *verdict, uint8_t *data, size_t length) {
  memcpy(data + length, data, length);
  attempt(f, verdict, data, 2 * length, 0);
}

static void halves_of_two(fixture_t *f, verdict_t *verdict, uint8_t *data, size_t length) {
  ucxx_address_t *other = NULL;
  CHECK_OK(ucxx_worker_address(f->duo.right, &other));
  CHECK_EQ(ucxx_address_length(other), length);
  memcpy(data, ucxx_address_data(other), length / 2);
  ucxx_address_destroy(other);
  attempt(f, verdict, data, length, 0);
}

#define BAD_INPUT_ROWS "bad_input_address.inc"
#define BAD_INPUT_TABLE bad_input_address
#include "bad_input_table.h"
