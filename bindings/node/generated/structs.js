// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// Made by generate.py. Do not edit.

import koffi from 'koffi';

export const ucxx_version_t = koffi.struct('ucxx_version_t', {
  struct_size: 'size_t',
  major: 'uint32_t',
  minor: 'uint32_t',
  patch: 'uint32_t',
  ucx_major: 'uint32_t',
  ucx_minor: 'uint32_t',
  ucx_patch: 'uint32_t',
  version_string: 'const char *',
  ucx_library_path: 'const char *',
  ucx_copies: 'uint32_t',
});

export const ucxx_config_entry_t = koffi.struct('ucxx_config_entry_t', {
  key: 'const char *',
  value: 'const char *',
});

export const ucxx_context_params_t = koffi.struct('ucxx_context_params_t', {
  struct_size: 'size_t',
  features: 'uint64_t',
  config: 'void *',
  config_count: 'size_t',
  network: 'int32_t',
  name: 'const char *',
});

export const ucxx_worker_params_t = koffi.struct('ucxx_worker_params_t', {
  struct_size: 'size_t',
  thread_mode: 'int32_t',
  progress_mode: 'int32_t',
  delayed_submission: 'int32_t',
  submission_queue_depth: 'uint32_t',
  spin_ns: 'uint64_t',
  wait_takeover: 'int32_t',
  cpu: 'int32_t',
  thread_start: 'void *',
  thread_start_arg: 'void *',
  name: 'const char *',
  describe_requests: 'uint8_t',
  reserved: koffi.array('uint8_t', 7),
});

export const ucxx_worker_attr_t = koffi.struct('ucxx_worker_attr_t', {
  struct_size: 'size_t',
  thread_mode: 'int32_t',
  progress_mode: 'int32_t',
  delayed_submission: 'uint8_t',
  progress_thread_running: 'uint8_t',
  max_am_header: 'size_t',
  progress_thread_id: 'uint64_t',
  name: koffi.array('char', 64),
});

export const ucxx_worker_stats_t = koffi.struct('ucxx_worker_stats_t', {
  struct_size: 'size_t',
  submitted: 'uint64_t',
  completed: 'uint64_t',
  failed: 'uint64_t',
  canceled: 'uint64_t',
  in_flight: 'uint64_t',
  bytes_sent: 'uint64_t',
  bytes_received: 'uint64_t',
  delayed: 'uint64_t',
  queue_high_water: 'uint64_t',
  queue_full: 'uint64_t',
  progress_calls: 'uint64_t',
  wakeups: 'uint64_t',
  sleeps: 'uint64_t',
  endpoints: 'uint64_t',
  endpoint_failures: 'uint64_t',
  am_unhandled: 'uint64_t',
});

export const ucxx_recv_info_t = koffi.struct('ucxx_recv_info_t', {
  length: 'uint64_t',
  sender_tag: 'uint64_t',
  reserved: koffi.array('uint64_t', 2),
});

export const ucxx_op_params_t = koffi.struct('ucxx_op_params_t', {
  struct_size: 'size_t',
  flags: 'uint64_t',
  memory_type: 'int32_t',
  reserved: 'uint32_t',
  timeout_ns: 'uint64_t',
  callback: 'void *',
  callback_arg: 'void *',
  notifier: 'void *',
  memory: 'void *',
  recv_info: 'void *',
  source: 'void *',
});

export const ucxx_completion_t = koffi.struct('ucxx_completion_t', {
  user_data: 'void *',
  request: 'void *',
  length: 'uint64_t',
  sender_tag: 'uint64_t',
  status: 'int32_t',
  kind: 'int32_t',
  handle: 'void *',
  reserved: koffi.array('uint32_t', 4),
});

export const ucxx_endpoint_params_t = koffi.struct('ucxx_endpoint_params_t', {
  struct_size: 'size_t',
  error_handling: 'int32_t',
  send_window_ops: 'uint32_t',
  send_window_bytes: 'uint64_t',
  send_queue_ops: 'uint32_t',
  send_queue_bytes: 'uint64_t',
  connect_timeout_ns: 'uint64_t',
  liveness_ns: 'uint64_t',
  local_address: 'const char *',
  on_open: 'void *',
  on_open_arg: 'void *',
  on_close: 'void *',
  on_close_arg: 'void *',
  notifier: 'void *',
});

export const ucxx_endpoint_attr_t = koffi.struct('ucxx_endpoint_attr_t', {
  struct_size: 'size_t',
  local_address: koffi.array('char', 64),
  remote_address: koffi.array('char', 64),
  transports: koffi.array('char', 256),
  peer_id: 'uint64_t',
  operations_sent: 'uint64_t',
  bytes_sent: 'uint64_t',
  in_flight: 'uint64_t',
  same_host: 'uint8_t',
});

export const ucxx_endpoint_load_t = koffi.struct('ucxx_endpoint_load_t', {
  struct_size: 'size_t',
  window_operations: 'uint64_t',
  window_bytes: 'uint64_t',
  queued_operations: 'uint64_t',
  queued_bytes: 'uint64_t',
});

export const ucxx_listener_params_t = koffi.struct('ucxx_listener_params_t', {
  struct_size: 'size_t',
  host: 'const char *',
  port: 'uint16_t',
  on_connect: 'void *',
  on_connect_arg: 'void *',
  notifier: 'void *',
});

export const ucxx_buffer_t = koffi.struct('ucxx_buffer_t', {
  data: 'void *',
  length: 'uint64_t',
  memory_type: 'int32_t',
  device_id: 'int32_t',
  reserved: koffi.array('uint64_t', 2),
});

export const ucxx_allocator_t = koffi.struct('ucxx_allocator_t', {
  struct_size: 'size_t',
  allocate: 'void *',
  deallocate: 'void *',
  arg: 'void *',
  max_frames: 'size_t',
  max_total_bytes: 'size_t',
});

export const ucxx_am_queue_cover_t = koffi.struct('ucxx_am_queue_cover_t', {
  struct_size: 'size_t',
  owner: 'const char *',
  id: 'uint64_t',
  header: 'void *',
  header_length: 'size_t',
  memory_policy: 'int32_t',
  reserved: 'uint32_t',
});

export const ucxx_group_params_t = koffi.struct('ucxx_group_params_t', {
  struct_size: 'size_t',
  bootstrap: 'int32_t',
  rank: 'uint32_t',
  size: 'uint32_t',
  allgather: 'void *',
  allgather_arg: 'void *',
  root: 'const char *',
  secret: 'const char *',
  timeout_ns: 'uint64_t',
  collective_timeout_ns: 'uint64_t',
});

export const ucxx_block_t = koffi.struct('ucxx_block_t', {
  offset: 'int64_t',
  length: 'uint64_t',
});

export const ucxx_layout_t = koffi.struct('ucxx_layout_t', {
  struct_size: 'size_t',
  element_type: 'int32_t',
  count: 'uint64_t',
  block_length: 'uint64_t',
  stride: 'int64_t',
  blocks: 'void *',
  block_count: 'size_t',
  reserved: koffi.array('uint64_t', 2),
});

export const ucxx_window_params_t = koffi.struct('ucxx_window_params_t', {
  struct_size: 'size_t',
  no_locks: 'uint8_t',
  same_disp_unit: 'uint8_t',
  same_size: 'uint8_t',
  shared_noncontiguous: 'uint8_t',
  accumulate_ordering: 'int32_t',
  accumulate_granularity: 'uint64_t',
  lock_timeout_ns: 'uint64_t',
  memory: 'void *',
});

export const ucxx_window_attr_t = koffi.struct('ucxx_window_attr_t', {
  struct_size: 'size_t',
  flavor: 'int32_t',
  data: 'void *',
  size: 'size_t',
  disp_unit: 'uint32_t',
  sync_type: 'int32_t',
});

export const ucxx_hub_params_t = koffi.struct('ucxx_hub_params_t', {
  struct_size: 'size_t',
  envelope_size: 'size_t',
  max_queue_chunks: 'size_t',
  max_queue_bytes: 'size_t',
  retain: 'int32_t',
  transfers_in_flight: 'uint32_t',
  worker: 'void *',
});

export const ucxx_hub_stats_t = koffi.struct('ucxx_hub_stats_t', {
  struct_size: 'size_t',
  chunks_produced: 'uint64_t',
  chunks_consumed: 'uint64_t',
  transfers: 'uint64_t',
  transfer_bytes: 'uint64_t',
  stale_transfers: 'uint64_t',
  free_envelopes: 'uint64_t',
  leased_envelopes: 'uint64_t',
  queued_chunks: 'uint64_t',
  trashed_envelopes: 'uint64_t',
  queue_high_water: 'uint64_t',
  credit_stalls: 'uint64_t',
});

export const ucxx_memory_kind_t = koffi.struct('ucxx_memory_kind_t', {
  memory_type: 'int32_t',
  device_id: 'int32_t',
});

export const ucxx_link_params_t = koffi.struct('ucxx_link_params_t', {
  struct_size: 'size_t',
  broadcast: 'uint8_t',
  autocommit: 'uint8_t',
  on_ready: 'void *',
  on_ready_arg: 'void *',
});

export const ucxx_envelope_attr_t = koffi.struct('ucxx_envelope_attr_t', {
  struct_size: 'size_t',
  data: 'void *',
  length: 'size_t',
  capacity: 'size_t',
  kind: ucxx_memory_kind_t,
  metadata: 'void *',
  metadata_length: 'size_t',
  ready_event: 'void *',
});

export const ucxx_log_callback_t = koffi.proto(
  'ucxx_log_callback_t', 'void', ['void *', 'int32_t', 'const char *', 'const char *']);

export const ucxx_config_visitor_t = koffi.proto(
  'ucxx_config_visitor_t', 'void', ['void *', 'const char *', 'const char *']);

export const ucxx_request_callback_t = koffi.proto(
  'ucxx_request_callback_t', 'void', ['void *', 'void *', 'int32_t']);

export const ucxx_endpoint_callback_t = koffi.proto(
  'ucxx_endpoint_callback_t', 'void', ['void *', 'void *', 'int32_t']);

export const ucxx_listener_callback_t = koffi.proto(
  'ucxx_listener_callback_t', 'void', ['void *', 'void *']);

export const ucxx_am_handler_t = koffi.proto(
  'ucxx_am_handler_t', 'void', ['void *', 'void *']);

export const ucxx_destroy_arg_t = koffi.proto(
  'ucxx_destroy_arg_t', 'void', ['void *']);

export const ucxx_allocate_t = koffi.proto(
  'ucxx_allocate_t', 'int32_t', ['void *', 'size_t', 'int32_t', 'int32_t', 'void *']);

export const ucxx_deallocate_t = koffi.proto(
  'ucxx_deallocate_t', 'void', ['void *', 'void *', 'size_t', 'int32_t', 'int32_t']);

export const ucxx_multi_handler_t = koffi.proto(
  'ucxx_multi_handler_t', 'void', ['void *', 'void *', 'void *', 'size_t', 'void *', 'int32_t']);

export const ucxx_fetch_handler_t = koffi.proto(
  'ucxx_fetch_handler_t', 'void', ['void *', 'void *']);

export const ucxx_link_callback_t = koffi.proto(
  'ucxx_link_callback_t', 'void', ['void *', 'void *', 'int32_t']);

export const sizes = {
  ucxx_version_t: 56,
  ucxx_config_entry_t: 16,
  ucxx_context_params_t: 48,
  ucxx_worker_params_t: 72,
  ucxx_worker_attr_t: 104,
  ucxx_worker_stats_t: 136,
  ucxx_recv_info_t: 32,
  ucxx_op_params_t: 80,
  ucxx_completion_t: 64,
  ucxx_endpoint_params_t: 104,
  ucxx_endpoint_attr_t: 432,
  ucxx_endpoint_load_t: 40,
  ucxx_listener_params_t: 48,
  ucxx_buffer_t: 40,
  ucxx_allocator_t: 48,
  ucxx_am_queue_cover_t: 48,
  ucxx_group_params_t: 72,
  ucxx_block_t: 16,
  ucxx_layout_t: 72,
  ucxx_window_params_t: 40,
  ucxx_window_attr_t: 40,
  ucxx_hub_params_t: 48,
  ucxx_hub_stats_t: 96,
  ucxx_memory_kind_t: 8,
  ucxx_link_params_t: 32,
  ucxx_envelope_attr_t: 64,
};

// Parameters: these members, and the defaults of the others.
export const contextParams = (members) => ({ struct_size: 48, ...members });
export const workerParams = (members) => ({ struct_size: 72, ...members });
export const opParams = (members) => ({ struct_size: 80, ...members });
export const endpointParams = (members) => ({ struct_size: 104, ...members });
export const listenerParams = (members) => ({ struct_size: 48, ...members });
export const allocator = (members) => ({ struct_size: 48, ...members });
export const amQueueCover = (members) => ({ struct_size: 48, ...members });
export const groupParams = (members) => ({ struct_size: 72, ...members });
export const windowParams = (members) => ({ struct_size: 40, ...members });
export const hubParams = (members) => ({ struct_size: 48, ...members });
export const linkParams = (members) => ({ struct_size: 32, ...members });

// Takes one from the memory that the library has filled. Pointers are numbers.
export const readCompletion = (memory, at) => ({
  user_data: memory.readBigUInt64LE(at + 0),
  request: memory.readBigUInt64LE(at + 8),
  length: memory.readBigUInt64LE(at + 16),
  sender_tag: memory.readBigUInt64LE(at + 24),
  status: memory.readInt32LE(at + 32),
  kind: memory.readInt32LE(at + 36),
  handle: memory.readBigUInt64LE(at + 40),
});
