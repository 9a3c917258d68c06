/* Addresses as bytes: they survive a round trip, a copy outlives its worker, and
 * ucxx_address_from_ucp_bytes accepts bytes without a check. */
#include "test_util.h"

static ucxx_endpoint_t *endpoint_to(ucxx_worker_t *worker, const void *bytes, size_t length,
                                    ucxx_status_t (*from)(const void *data, size_t length,
                                                          ucxx_address_t **address)) {
  ucxx_address_t *address = NULL;
  ucxx_endpoint_t *endpoint = NULL;
  CHECK_OK(from(bytes, length, &address));
  CHECK_OK(ucxx_endpoint_create(worker, address, NULL, &endpoint));
  ucxx_address_destroy(address);
  return endpoint;
}

static void round_trip(void) {
  STEP("address to bytes and back");
  duo_t duo;
  duo_open(&duo, NULL);
  ucxx_address_t *address = NULL, *again = NULL, *copy = NULL;
  CHECK_OK(ucxx_worker_address(duo.right, &address));
  CHECK_OK(ucxx_worker_address(duo.right, &again));
  size_t length = ucxx_address_length(address);
  CHECK(length > 0);
  CHECK_EQ(ucxx_address_length(again), length);
  CHECK(memcmp(ucxx_address_data(address), ucxx_address_data(again), length) == 0);
  uint8_t *bytes = test_alloc(length);
  memcpy(bytes, ucxx_address_data(address), length);
  ucxx_address_destroy(address);
  CHECK_OK(ucxx_address_from_bytes(bytes, length, &copy));
  CHECK_EQ(ucxx_address_length(copy), length);
  CHECK(memcmp(ucxx_address_data(copy), bytes, length) == 0);
  /* The handle has its own copy of the bytes. */
  memset(bytes, 0, length);
  CHECK(memcmp(ucxx_address_data(copy), ucxx_address_data(again), length) == 0);
  ucxx_endpoint_t *endpoint = NULL;
  CHECK_OK(ucxx_endpoint_create(duo.left, copy, NULL, &endpoint));
  ucxx_address_destroy(copy);
  duo_t way = {duo.context, duo.left, duo.right, endpoint, NULL};
  duo_transfer(&way, 5000, 1);
  duo_drop(&way, endpoint);
  ucxx_address_destroy(again);
  free(bytes);

  STEP("two workers have two addresses");
  CHECK_OK(ucxx_worker_address(duo.left, &address));
  CHECK_OK(ucxx_worker_address(duo.right, &again));
  CHECK(ucxx_address_length(address) != ucxx_address_length(again) ||
        memcmp(ucxx_address_data(address), ucxx_address_data(again), ucxx_address_length(again)) !=
            0);
  ucxx_address_destroy(address);
  ucxx_address_destroy(again);
  duo_close(&duo);
}

static void outlives_its_worker(void) {
  STEP("an address outlives its worker");
  duo_t duo;
  ucxx_address_t *address = NULL;
  duo_open(&duo, NULL);
  CHECK_OK(ucxx_worker_address(duo.right, &address));
  duo_close(&duo);
  CHECK(ucxx_address_length(address) > 0);
  uint8_t sum = 0;
  for (size_t at = 0; at < ucxx_address_length(address); at++)
    sum ^= ((const uint8_t *)ucxx_address_data(address))[at];
  ucxx_address_t *copy = NULL;
  CHECK_OK(
      ucxx_address_from_bytes(ucxx_address_data(address), ucxx_address_length(address), &copy));
  ucxx_address_destroy(copy);
  ucxx_address_destroy(address);
  printf("checksum %u\n", (unsigned)sum);
}

/* UCX ignores what follows its own bytes, so an address with the library's trailer is valid for the
 * unchecked function too. */
static void unchecked_door(void) {
  STEP("bytes that are not checked");
  duo_t duo;
  ucxx_address_t *address = NULL;
  duo_open(&duo, NULL);
  CHECK_OK(ucxx_worker_address(duo.right, &address));
  ucxx_endpoint_t *endpoint =
      endpoint_to(duo.left, ucxx_address_data(address), ucxx_address_length(address),
                  ucxx_address_from_ucp_bytes);
  duo_t way = {duo.context, duo.left, duo.right, endpoint, NULL};
  duo_transfer(&way, 8, 1);
  duo_transfer(&way, 100000, 2);
  duo_drop(&way, endpoint);
  ucxx_address_destroy(address);
  duo_close(&duo);
}

static void between_contexts(void) {
  STEP("between two contexts of one process");
  duo_t one, two;
  ucxx_address_t *address = NULL;
  duo_open(&one, NULL);
  duo_open(&two, NULL);
  CHECK_OK(ucxx_worker_address(two.left, &address));
  ucxx_endpoint_t *endpoint = endpoint_to(one.left, ucxx_address_data(address),
                                          ucxx_address_length(address), ucxx_address_from_bytes);
  ucxx_address_destroy(address);
  duo_t way = {NULL, one.left, two.left, endpoint, NULL};
  duo_transfer(&way, 8, 1);
  duo_transfer(&way, 1 << 20, 2);
  duo_drop(&way, endpoint);
  duo_close(&one);
  duo_close(&two);
}

int main(void) {
  test_begin("address");
  round_trip();
  outlives_its_worker();
  unchecked_door();
  between_contexts();
  return 0;
}
