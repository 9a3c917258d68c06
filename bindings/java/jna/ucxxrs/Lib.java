// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// Made by generate.py. Do not edit.
package ucxxrs;

import com.sun.jna.Native;
import com.sun.jna.NativeLibrary;
import com.sun.jna.Pointer;
import java.nio.ByteBuffer;

/** The functions of the library that this package calls, by JNA. */
final class Lib {
  static {
    String name = System.getProperty("ucxx_rs.library", Constants.SONAME);
    Signals.keep(() -> Native.register(Lib.class, NativeLibrary.getInstance(name)));
  }

  private Lib() {}

  static long address(ByteBuffer direct) {
    return Pointer.nativeValue(Native.getDirectBufferPointer(direct));
  }

  static byte[] bytes(long address, int length) {
    return length == 0 ? new byte[0] : new Pointer(address).getByteArray(0, length);
  }

  static String string(long address) {
    return new Pointer(address).getString(0, "UTF-8");
  }

  static native long ucxx_status_name(int status);

  static native long ucxx_error_text(int status);

  static native int ucxx_context_create(long params, long context);

  static native void ucxx_context_destroy(long context);

  static native int ucxx_worker_create(long context, long params, long worker);

  static native void ucxx_worker_destroy(long worker);

  static native int ucxx_notifier_create(long context, long notifier);

  static native int ucxx_notifier_wait(long notifier, long timeoutNs);

  static native int ucxx_notifier_poll(long notifier, long completions, long completionSize, long
      max, long count);

  static native int ucxx_notifier_stop(long notifier);

  static native void ucxx_notifier_destroy(long notifier);

  static native int ucxx_request_cancel(long request);

  static native long ucxx_request_error_message(long request);

  static native void ucxx_request_destroy(long request);

  static native int ucxx_endpoint_connect(long worker, long host, short port, long params, long
      endpoint);

  static native int ucxx_endpoint_accept(long connRequest, long params, long endpoint);

  static native int ucxx_endpoint_flush(long endpoint, long params, long request);

  static native int ucxx_endpoint_close(long endpoint, int how, long params, long request);

  static native void ucxx_endpoint_destroy(long endpoint);

  static native int ucxx_listener_create(long worker, long params, long listener);

  static native short ucxx_listener_port(long listener);

  static native void ucxx_listener_destroy(long listener);

  static native void ucxx_conn_request_destroy(long connRequest);

  static native int ucxx_tag_send(long endpoint, long buffer, long length, long tag, long params,
      long request);

  static native int ucxx_tag_recv(long worker, long buffer, long length, long tag, long tagMask,
      long params, long request);

  static native int ucxx_worker_set_fetch_notifier(long worker, short id, long notifier, long
      userData);

  static native int ucxx_am_fetch(long endpoint, short id, long header, long headerLength, long
      replyBuffer, long replyCapacity, long params, long request);

  static native long ucxx_fetch_header(long fetch, long length);

  static native int ucxx_fetch_reply(long fetch, long buffer, long length, long params, long
      request);

  static native int ucxx_fetch_reject(long fetch, int status);

  static native void ucxx_fetch_destroy(long fetch);
}
