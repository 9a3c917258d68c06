// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// Made by generate.py. Do not edit.
package ucxxrs;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static java.lang.foreign.ValueLayout.JAVA_SHORT;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.ByteBuffer;

/** The functions of the library that this package calls, by the foreign function interface. */
@SuppressWarnings("restricted")
final class Lib {
  private static final SymbolLookup[] LIBRARY = new SymbolLookup[1];

  static {
    String name = System.getProperty("ucxx_rs.library", Constants.SONAME);
    Signals.keep(() -> LIBRARY[0] = SymbolLookup.libraryLookup(name, Arena.global()));
  }

  private Lib() {}

  private static MethodHandle find(String name, FunctionDescriptor type) {
    return Linker.nativeLinker().downcallHandle(LIBRARY[0].find(name).orElseThrow(), type);
  }

  static long address(ByteBuffer direct) {
    return MemorySegment.ofBuffer(direct.duplicate().position(0)).address();
  }

  static byte[] bytes(long address, int length) {
    return MemorySegment.ofAddress(address).reinterpret(length).toArray(ValueLayout.JAVA_BYTE);
  }

  static String string(long address) {
    return MemorySegment.ofAddress(address).reinterpret(Long.MAX_VALUE).getString(0);
  }

  private static final MethodHandle ucxx_status_name =
      find("ucxx_status_name", FunctionDescriptor.of(JAVA_LONG, JAVA_INT));

  static long ucxx_status_name(int status) {
    try {
      return (long) ucxx_status_name.invokeExact(status);
    } catch (Throwable impossible) {
      throw new AssertionError(impossible);
    }
  }

  private static final MethodHandle ucxx_error_text =
      find("ucxx_error_text", FunctionDescriptor.of(JAVA_LONG, JAVA_INT));

  static long ucxx_error_text(int status) {
    try {
      return (long) ucxx_error_text.invokeExact(status);
    } catch (Throwable impossible) {
      throw new AssertionError(impossible);
    }
  }

  private static final MethodHandle ucxx_context_create =
      find("ucxx_context_create", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG));

  static int ucxx_context_create(long params, long context) {
    try {
      return (int) ucxx_context_create.invokeExact(params, context);
    } catch (Throwable impossible) {
      throw new AssertionError(impossible);
    }
  }

  private static final MethodHandle ucxx_context_destroy =
      find("ucxx_context_destroy", FunctionDescriptor.ofVoid(JAVA_LONG));

  static void ucxx_context_destroy(long context) {
    try {
      ucxx_context_destroy.invokeExact(context);
    } catch (Throwable impossible) {
      throw new AssertionError(impossible);
    }
  }

  private static final MethodHandle ucxx_worker_create =
      find("ucxx_worker_create", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG));

  static int ucxx_worker_create(long context, long params, long worker) {
    try {
      return (int) ucxx_worker_create.invokeExact(context, params, worker);
    } catch (Throwable impossible) {
      throw new AssertionError(impossible);
    }
  }

  private static final MethodHandle ucxx_worker_destroy =
      find("ucxx_worker_destroy", FunctionDescriptor.ofVoid(JAVA_LONG));

  static void ucxx_worker_destroy(long worker) {
    try {
      ucxx_worker_destroy.invokeExact(worker);
    } catch (Throwable impossible) {
      throw new AssertionError(impossible);
    }
  }

  private static final MethodHandle ucxx_notifier_create =
      find("ucxx_notifier_create", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG));

  static int ucxx_notifier_create(long context, long notifier) {
    try {
      return (int) ucxx_notifier_create.invokeExact(context, notifier);
    } catch (Throwable impossible) {
      throw new AssertionError(impossible);
    }
  }

  private static final MethodHandle ucxx_notifier_wait =
      find("ucxx_notifier_wait", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG));

  static int ucxx_notifier_wait(long notifier, long timeoutNs) {
    try {
      return (int) ucxx_notifier_wait.invokeExact(notifier, timeoutNs);
    } catch (Throwable impossible) {
      throw new AssertionError(impossible);
    }
  }

  private static final MethodHandle ucxx_notifier_poll =
      find("ucxx_notifier_poll", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG,
          JAVA_LONG, JAVA_LONG));

  static int ucxx_notifier_poll(long notifier, long completions, long completionSize, long max, long
      count) {
    try {
      return (int) ucxx_notifier_poll.invokeExact(notifier, completions, completionSize, max,
          count);
    } catch (Throwable impossible) {
      throw new AssertionError(impossible);
    }
  }

  private static final MethodHandle ucxx_notifier_stop =
      find("ucxx_notifier_stop", FunctionDescriptor.of(JAVA_INT, JAVA_LONG));

  static int ucxx_notifier_stop(long notifier) {
    try {
      return (int) ucxx_notifier_stop.invokeExact(notifier);
    } catch (Throwable impossible) {
      throw new AssertionError(impossible);
    }
  }

  private static final MethodHandle ucxx_notifier_destroy =
      find("ucxx_notifier_destroy", FunctionDescriptor.ofVoid(JAVA_LONG));

  static void ucxx_notifier_destroy(long notifier) {
    try {
      ucxx_notifier_destroy.invokeExact(notifier);
    } catch (Throwable impossible) {
      throw new AssertionError(impossible);
    }
  }

  private static final MethodHandle ucxx_request_cancel =
      find("ucxx_request_cancel", FunctionDescriptor.of(JAVA_INT, JAVA_LONG));

  static int ucxx_request_cancel(long request) {
    try {
      return (int) ucxx_request_cancel.invokeExact(request);
    } catch (Throwable impossible) {
      throw new AssertionError(impossible);
    }
  }

  private static final MethodHandle ucxx_request_error_message =
      find("ucxx_request_error_message", FunctionDescriptor.of(JAVA_LONG, JAVA_LONG));

  static long ucxx_request_error_message(long request) {
    try {
      return (long) ucxx_request_error_message.invokeExact(request);
    } catch (Throwable impossible) {
      throw new AssertionError(impossible);
    }
  }

  private static final MethodHandle ucxx_request_destroy =
      find("ucxx_request_destroy", FunctionDescriptor.ofVoid(JAVA_LONG));

  static void ucxx_request_destroy(long request) {
    try {
      ucxx_request_destroy.invokeExact(request);
    } catch (Throwable impossible) {
      throw new AssertionError(impossible);
    }
  }

  private static final MethodHandle ucxx_endpoint_connect =
      find("ucxx_endpoint_connect", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG,
          JAVA_SHORT, JAVA_LONG, JAVA_LONG));

  static int ucxx_endpoint_connect(long worker, long host, short port, long params, long endpoint) {
    try {
      return (int) ucxx_endpoint_connect.invokeExact(worker, host, port, params, endpoint);
    } catch (Throwable impossible) {
      throw new AssertionError(impossible);
    }
  }

  private static final MethodHandle ucxx_endpoint_accept =
      find("ucxx_endpoint_accept", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG,
          JAVA_LONG));

  static int ucxx_endpoint_accept(long connRequest, long params, long endpoint) {
    try {
      return (int) ucxx_endpoint_accept.invokeExact(connRequest, params, endpoint);
    } catch (Throwable impossible) {
      throw new AssertionError(impossible);
    }
  }

  private static final MethodHandle ucxx_endpoint_flush =
      find("ucxx_endpoint_flush", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG));

  static int ucxx_endpoint_flush(long endpoint, long params, long request) {
    try {
      return (int) ucxx_endpoint_flush.invokeExact(endpoint, params, request);
    } catch (Throwable impossible) {
      throw new AssertionError(impossible);
    }
  }

  private static final MethodHandle ucxx_endpoint_close =
      find("ucxx_endpoint_close", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_INT, JAVA_LONG,
          JAVA_LONG));

  static int ucxx_endpoint_close(long endpoint, int how, long params, long request) {
    try {
      return (int) ucxx_endpoint_close.invokeExact(endpoint, how, params, request);
    } catch (Throwable impossible) {
      throw new AssertionError(impossible);
    }
  }

  private static final MethodHandle ucxx_endpoint_destroy =
      find("ucxx_endpoint_destroy", FunctionDescriptor.ofVoid(JAVA_LONG));

  static void ucxx_endpoint_destroy(long endpoint) {
    try {
      ucxx_endpoint_destroy.invokeExact(endpoint);
    } catch (Throwable impossible) {
      throw new AssertionError(impossible);
    }
  }

  private static final MethodHandle ucxx_listener_create =
      find("ucxx_listener_create", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG,
          JAVA_LONG));

  static int ucxx_listener_create(long worker, long params, long listener) {
    try {
      return (int) ucxx_listener_create.invokeExact(worker, params, listener);
    } catch (Throwable impossible) {
      throw new AssertionError(impossible);
    }
  }

  private static final MethodHandle ucxx_listener_port =
      find("ucxx_listener_port", FunctionDescriptor.of(JAVA_SHORT, JAVA_LONG));

  static short ucxx_listener_port(long listener) {
    try {
      return (short) ucxx_listener_port.invokeExact(listener);
    } catch (Throwable impossible) {
      throw new AssertionError(impossible);
    }
  }

  private static final MethodHandle ucxx_listener_destroy =
      find("ucxx_listener_destroy", FunctionDescriptor.ofVoid(JAVA_LONG));

  static void ucxx_listener_destroy(long listener) {
    try {
      ucxx_listener_destroy.invokeExact(listener);
    } catch (Throwable impossible) {
      throw new AssertionError(impossible);
    }
  }

  private static final MethodHandle ucxx_conn_request_destroy =
      find("ucxx_conn_request_destroy", FunctionDescriptor.ofVoid(JAVA_LONG));

  static void ucxx_conn_request_destroy(long connRequest) {
    try {
      ucxx_conn_request_destroy.invokeExact(connRequest);
    } catch (Throwable impossible) {
      throw new AssertionError(impossible);
    }
  }

  private static final MethodHandle ucxx_tag_send =
      find("ucxx_tag_send", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG,
          JAVA_LONG, JAVA_LONG, JAVA_LONG));

  static int ucxx_tag_send(long endpoint, long buffer, long length, long tag, long params, long
      request) {
    try {
      return (int) ucxx_tag_send.invokeExact(endpoint, buffer, length, tag, params, request);
    } catch (Throwable impossible) {
      throw new AssertionError(impossible);
    }
  }

  private static final MethodHandle ucxx_tag_recv =
      find("ucxx_tag_recv", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG,
          JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));

  static int ucxx_tag_recv(long worker, long buffer, long length, long tag, long tagMask, long
      params, long request) {
    try {
      return (int) ucxx_tag_recv.invokeExact(worker, buffer, length, tag, tagMask, params, request);
    } catch (Throwable impossible) {
      throw new AssertionError(impossible);
    }
  }

  private static final MethodHandle ucxx_worker_set_fetch_notifier =
      find("ucxx_worker_set_fetch_notifier", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_SHORT,
          JAVA_LONG, JAVA_LONG));

  static int ucxx_worker_set_fetch_notifier(long worker, short id, long notifier, long userData) {
    try {
      return (int) ucxx_worker_set_fetch_notifier.invokeExact(worker, id, notifier, userData);
    } catch (Throwable impossible) {
      throw new AssertionError(impossible);
    }
  }

  private static final MethodHandle ucxx_am_fetch =
      find("ucxx_am_fetch", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_SHORT, JAVA_LONG,
          JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));

  static int ucxx_am_fetch(long endpoint, short id, long header, long headerLength, long
      replyBuffer, long replyCapacity, long params, long request) {
    try {
      return (int) ucxx_am_fetch.invokeExact(endpoint, id, header, headerLength, replyBuffer,
          replyCapacity, params, request);
    } catch (Throwable impossible) {
      throw new AssertionError(impossible);
    }
  }

  private static final MethodHandle ucxx_fetch_header =
      find("ucxx_fetch_header", FunctionDescriptor.of(JAVA_LONG, JAVA_LONG, JAVA_LONG));

  static long ucxx_fetch_header(long fetch, long length) {
    try {
      return (long) ucxx_fetch_header.invokeExact(fetch, length);
    } catch (Throwable impossible) {
      throw new AssertionError(impossible);
    }
  }

  private static final MethodHandle ucxx_fetch_reply =
      find("ucxx_fetch_reply", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG,
          JAVA_LONG, JAVA_LONG));

  static int ucxx_fetch_reply(long fetch, long buffer, long length, long params, long request) {
    try {
      return (int) ucxx_fetch_reply.invokeExact(fetch, buffer, length, params, request);
    } catch (Throwable impossible) {
      throw new AssertionError(impossible);
    }
  }

  private static final MethodHandle ucxx_fetch_reject =
      find("ucxx_fetch_reject", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_INT));

  static int ucxx_fetch_reject(long fetch, int status) {
    try {
      return (int) ucxx_fetch_reject.invokeExact(fetch, status);
    } catch (Throwable impossible) {
      throw new AssertionError(impossible);
    }
  }

  private static final MethodHandle ucxx_fetch_destroy =
      find("ucxx_fetch_destroy", FunctionDescriptor.ofVoid(JAVA_LONG));

  static void ucxx_fetch_destroy(long fetch) {
    try {
      ucxx_fetch_destroy.invokeExact(fetch);
    } catch (Throwable impossible) {
      throw new AssertionError(impossible);
    }
  }
}
