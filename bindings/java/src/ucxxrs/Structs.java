// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// Made by generate.py. Do not edit.
package ucxxrs;

/** The size of each struct, and the offsets of its members. */
final class Structs {
  static final class Version {
    static final int SIZE = 56;
    static final int struct_size = 0;
    static final int major = 8;
    static final int minor = 12;
    static final int patch = 16;
    static final int ucx_major = 20;
    static final int ucx_minor = 24;
    static final int ucx_patch = 28;
    static final int version_string = 32;
    static final int ucx_library_path = 40;
    static final int ucx_copies = 48;
  }

  static final class ConfigEntry {
    static final int SIZE = 16;
    static final int key = 0;
    static final int value = 8;
  }

  static final class ContextParams {
    static final int SIZE = 48;
    static final int struct_size = 0;
    static final int features = 8;
    static final int config = 16;
    static final int config_count = 24;
    static final int network = 32;
    static final int name = 40;
  }

  static final class WorkerParams {
    static final int SIZE = 72;
    static final int struct_size = 0;
    static final int thread_mode = 8;
    static final int progress_mode = 12;
    static final int delayed_submission = 16;
    static final int submission_queue_depth = 20;
    static final int spin_ns = 24;
    static final int wait_takeover = 32;
    static final int cpu = 36;
    static final int thread_start = 40;
    static final int thread_start_arg = 48;
    static final int name = 56;
    static final int describe_requests = 64;
  }

  static final class WorkerAttr {
    static final int SIZE = 104;
    static final int struct_size = 0;
    static final int thread_mode = 8;
    static final int progress_mode = 12;
    static final int delayed_submission = 16;
    static final int progress_thread_running = 17;
    static final int max_am_header = 24;
    static final int progress_thread_id = 32;
    static final int name = 40;
  }

  static final class WorkerStats {
    static final int SIZE = 136;
    static final int struct_size = 0;
    static final int submitted = 8;
    static final int completed = 16;
    static final int failed = 24;
    static final int canceled = 32;
    static final int in_flight = 40;
    static final int bytes_sent = 48;
    static final int bytes_received = 56;
    static final int delayed = 64;
    static final int queue_high_water = 72;
    static final int queue_full = 80;
    static final int progress_calls = 88;
    static final int wakeups = 96;
    static final int sleeps = 104;
    static final int endpoints = 112;
    static final int endpoint_failures = 120;
    static final int am_unhandled = 128;
  }

  static final class RecvInfo {
    static final int SIZE = 32;
    static final int length = 0;
    static final int sender_tag = 8;
  }

  static final class OpParams {
    static final int SIZE = 80;
    static final int struct_size = 0;
    static final int flags = 8;
    static final int memory_type = 16;
    static final int timeout_ns = 24;
    static final int callback = 32;
    static final int callback_arg = 40;
    static final int notifier = 48;
    static final int memory = 56;
    static final int recv_info = 64;
    static final int source = 72;
  }

  static final class Completion {
    static final int SIZE = 64;
    static final int user_data = 0;
    static final int request = 8;
    static final int length = 16;
    static final int sender_tag = 24;
    static final int status = 32;
    static final int kind = 36;
    static final int handle = 40;
  }

  static final class EndpointParams {
    static final int SIZE = 104;
    static final int struct_size = 0;
    static final int error_handling = 8;
    static final int send_window_ops = 12;
    static final int send_window_bytes = 16;
    static final int send_queue_ops = 24;
    static final int send_queue_bytes = 32;
    static final int connect_timeout_ns = 40;
    static final int liveness_ns = 48;
    static final int local_address = 56;
    static final int on_open = 64;
    static final int on_open_arg = 72;
    static final int on_close = 80;
    static final int on_close_arg = 88;
    static final int notifier = 96;
  }

  static final class EndpointAttr {
    static final int SIZE = 432;
    static final int struct_size = 0;
    static final int local_address = 8;
    static final int remote_address = 72;
    static final int transports = 136;
    static final int peer_id = 392;
    static final int operations_sent = 400;
    static final int bytes_sent = 408;
    static final int in_flight = 416;
    static final int same_host = 424;
  }

  static final class EndpointLoad {
    static final int SIZE = 40;
    static final int struct_size = 0;
    static final int window_operations = 8;
    static final int window_bytes = 16;
    static final int queued_operations = 24;
    static final int queued_bytes = 32;
  }

  static final class ListenerParams {
    static final int SIZE = 48;
    static final int struct_size = 0;
    static final int host = 8;
    static final int port = 16;
    static final int on_connect = 24;
    static final int on_connect_arg = 32;
    static final int notifier = 40;
  }

  static final class Buffer {
    static final int SIZE = 40;
    static final int data = 0;
    static final int length = 8;
    static final int memory_type = 16;
    static final int device_id = 20;
  }

  static final class Allocator {
    static final int SIZE = 48;
    static final int struct_size = 0;
    static final int allocate = 8;
    static final int deallocate = 16;
    static final int arg = 24;
    static final int max_frames = 32;
    static final int max_total_bytes = 40;
  }

  static final class AmQueueCover {
    static final int SIZE = 48;
    static final int struct_size = 0;
    static final int owner = 8;
    static final int id = 16;
    static final int header = 24;
    static final int header_length = 32;
    static final int memory_policy = 40;
  }

  static final class GroupParams {
    static final int SIZE = 72;
    static final int struct_size = 0;
    static final int bootstrap = 8;
    static final int rank = 12;
    static final int size = 16;
    static final int allgather = 24;
    static final int allgather_arg = 32;
    static final int root = 40;
    static final int secret = 48;
    static final int timeout_ns = 56;
    static final int collective_timeout_ns = 64;
  }

  static final class Block {
    static final int SIZE = 16;
    static final int offset = 0;
    static final int length = 8;
  }

  static final class Layout {
    static final int SIZE = 72;
    static final int struct_size = 0;
    static final int element_type = 8;
    static final int count = 16;
    static final int block_length = 24;
    static final int stride = 32;
    static final int blocks = 40;
    static final int block_count = 48;
  }

  static final class WindowParams {
    static final int SIZE = 40;
    static final int struct_size = 0;
    static final int no_locks = 8;
    static final int same_disp_unit = 9;
    static final int same_size = 10;
    static final int shared_noncontiguous = 11;
    static final int accumulate_ordering = 12;
    static final int accumulate_granularity = 16;
    static final int lock_timeout_ns = 24;
    static final int memory = 32;
  }

  static final class WindowAttr {
    static final int SIZE = 40;
    static final int struct_size = 0;
    static final int flavor = 8;
    static final int data = 16;
    static final int size = 24;
    static final int disp_unit = 32;
    static final int sync_type = 36;
  }

  static final class HubParams {
    static final int SIZE = 48;
    static final int struct_size = 0;
    static final int envelope_size = 8;
    static final int max_queue_chunks = 16;
    static final int max_queue_bytes = 24;
    static final int retain = 32;
    static final int transfers_in_flight = 36;
    static final int worker = 40;
  }

  static final class HubStats {
    static final int SIZE = 96;
    static final int struct_size = 0;
    static final int chunks_produced = 8;
    static final int chunks_consumed = 16;
    static final int transfers = 24;
    static final int transfer_bytes = 32;
    static final int stale_transfers = 40;
    static final int free_envelopes = 48;
    static final int leased_envelopes = 56;
    static final int queued_chunks = 64;
    static final int trashed_envelopes = 72;
    static final int queue_high_water = 80;
    static final int credit_stalls = 88;
  }

  static final class MemoryKind {
    static final int SIZE = 8;
    static final int memory_type = 0;
    static final int device_id = 4;
  }

  static final class LinkParams {
    static final int SIZE = 32;
    static final int struct_size = 0;
    static final int broadcast = 8;
    static final int autocommit = 9;
    static final int on_ready = 16;
    static final int on_ready_arg = 24;
  }

  static final class EnvelopeAttr {
    static final int SIZE = 64;
    static final int struct_size = 0;
    static final int data = 8;
    static final int length = 16;
    static final int capacity = 24;
    static final int kind = 32;
    static final int metadata = 40;
    static final int metadata_length = 48;
    static final int ready_event = 56;
  }

  private Structs() {}
}
