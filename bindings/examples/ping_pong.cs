// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// C#, by Mono or .NET: two processes send tag messages to each other.
//
//     mcs ping_pong.cs
//     mono ping_pong.exe           the server, which prints its port
//     mono ping_pong.exe PORT      the client
//
// The server returns each message in callbacks. The client waits. The last answer is longer than
// its buffer, to show an error. The declarations are those of api.json that this program needs.
using System;
using System.Linq;
using System.Runtime.InteropServices;

static class Ucxx {
  const string Library = "ucxx_rs";
  public const int Truncated = -9, ConnectionReset = -25;
  public const ulong AlwaysCallback = 1, Wait = 64, AllBits = ulong.MaxValue;

  [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
  public delegate void RequestCallback(IntPtr arg, IntPtr request, int status);
  [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
  public delegate void EndpointCallback(IntPtr arg, IntPtr endpoint, int status);
  [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
  public delegate void ListenerCallback(IntPtr arg, IntPtr connRequest);

  [StructLayout(LayoutKind.Sequential)]
  public struct OpParams {
    public UIntPtr StructSize;
    public ulong Flags;
    public int MemoryType;
    public uint Reserved;
    public ulong TimeoutNs;
    public RequestCallback Callback;
    public IntPtr CallbackArg, Notifier, Memory, RecvInfo, Source;
  }
  [StructLayout(LayoutKind.Sequential)]
  public struct RecvInfo {
    public ulong Length, SenderTag, Reserved0, Reserved1;
  }
  [StructLayout(LayoutKind.Sequential)]
  public struct EndpointParams {
    public UIntPtr StructSize;
    public int ErrorHandling;
    public uint SendWindowOps;
    public ulong SendWindowBytes;
    public uint SendQueueOps;
    public ulong SendQueueBytes, ConnectTimeoutNs, LivenessNs;
    public IntPtr LocalAddress, OnOpen, OnOpenArg;
    public EndpointCallback OnClose;
    public IntPtr OnCloseArg, Notifier;
  }
  [StructLayout(LayoutKind.Sequential)]
  public struct ListenerParams {
    public UIntPtr StructSize;
    public IntPtr Host;
    public ushort Port;
    public ListenerCallback OnConnect;
    public IntPtr OnConnectArg, Notifier;
  }

  [DllImport(Library)] static extern IntPtr ucxx_error_text(int status);
  [DllImport(Library)]
  public static extern int ucxx_context_create(IntPtr parameters, out IntPtr context);
  [DllImport(Library)] public static extern void ucxx_context_destroy(IntPtr context);
  [DllImport(Library)]
  public static extern int ucxx_worker_create(IntPtr context, IntPtr parameters, out IntPtr worker);
  [DllImport(Library)] public static extern int ucxx_worker_wait(IntPtr worker, ulong timeoutNs);
  [DllImport(Library)] public static extern void ucxx_worker_destroy(IntPtr worker);
  [DllImport(Library)]
  public static extern int ucxx_listener_create(IntPtr worker, [In] ref ListenerParams parameters,
                                                out IntPtr listener);
  [DllImport(Library)] public static extern ushort ucxx_listener_port(IntPtr listener);
  [DllImport(Library)] public static extern void ucxx_listener_destroy(IntPtr listener);
  [DllImport(Library)] public static extern void ucxx_conn_request_destroy(IntPtr connRequest);
  [DllImport(Library)]
  public static extern int ucxx_endpoint_accept(IntPtr connRequest,
                                                [In] ref EndpointParams parameters,
                                                out IntPtr endpoint);
  [DllImport(Library)]
  public static extern int ucxx_endpoint_connect(IntPtr worker, string host, ushort port,
                                                 IntPtr parameters, out IntPtr endpoint);
  [DllImport(Library)] public static extern void ucxx_endpoint_destroy(IntPtr endpoint);
  [DllImport(Library)]
  public static extern int ucxx_tag_send(IntPtr endpoint, IntPtr buffer, UIntPtr length, ulong tag,
                                         [In] ref OpParams parameters, IntPtr request);
  [DllImport(Library)]
  public static extern int ucxx_tag_recv(IntPtr worker, IntPtr buffer, UIntPtr length, ulong tag,
                                         ulong mask, [In] ref OpParams parameters, IntPtr request);

  // Call it directly after the function: the text is about the last call of this thread.
  public static void Check(int status) {
    if (status < 0)
      throw new UcxxException(status, Marshal.PtrToStringAnsi(ucxx_error_text(status)));
  }

  public static UIntPtr SizeOf<T>() { return (UIntPtr)Marshal.SizeOf(typeof(T)); }
}

class UcxxException : Exception {
  public readonly int Status;
  public UcxxException(int status, string text) : base(text) { Status = status; }
}

// Ends a handle at the end of a using block.
class Handle : IDisposable {
  public readonly IntPtr Pointer;
  readonly Action<IntPtr> destroy;
  public Handle(IntPtr pointer, Action<IntPtr> destroy) {
    Pointer = pointer;
    this.destroy = destroy;
  }
  public void Dispose() { destroy(Pointer); }
}

// The collector must not move a buffer while an operation uses it.
class Buffer : IDisposable {
  public readonly byte[] Bytes;
  GCHandle pin;
  public Buffer(int length) {
    Bytes = new byte[length];
    pin = GCHandle.Alloc(Bytes, GCHandleType.Pinned);
  }
  public IntPtr Address { get { return pin.AddrOfPinnedObject(); } }
  public void Dispose() { pin.Free(); }
}

class Server {
  readonly IntPtr worker;
  readonly Buffer buffer;
  readonly IntPtr info = Marshal.AllocHGlobal(Marshal.SizeOf(typeof(Ucxx.RecvInfo)));
  // The library has the addresses of the delegates, so the collector must not take them.
  static Server running;
  readonly Ucxx.ListenerCallback onConnect;
  readonly Ucxx.EndpointCallback onClose;
  readonly Ucxx.RequestCallback onReceived, onSent;
  IntPtr client;
  int returned;
  bool closed;
  Exception failure;

  Server(IntPtr worker, Buffer buffer) {
    this.worker = worker;
    this.buffer = buffer;
    onConnect = (arg, request) => Caught(() => Accept(request));
    onClose = (arg, endpoint, status) => Caught(() => {
      if (status != Ucxx.ConnectionReset) throw new Exception("not the normal end: " + status);
      closed = true;
    });
    onReceived = (arg, request, status) => Caught(() => {
      Ucxx.Check(status);
      var length = Marshal.PtrToStructure<Ucxx.RecvInfo>(info).Length;
      var parameters = Params(onSent);
      Ucxx.Check(Ucxx.ucxx_tag_send(client, buffer.Address, (UIntPtr)length, PingPong.Pong,
                                    ref parameters, IntPtr.Zero));
    });
    onSent = (arg, request, status) => Caught(() => {
      Ucxx.Check(status);
      if (++returned <= PingPong.Rounds) Receive();
    });
  }

  // An exception must not leave a callback. The loop throws it.
  void Caught(Action body) {
    try {
      body();
    } catch (Exception exception) {
      failure = failure ?? exception;
    }
  }

  static Ucxx.OpParams Params(Ucxx.RequestCallback callback) {
    return new Ucxx.OpParams {
      StructSize = Ucxx.SizeOf<Ucxx.OpParams>(),
      Flags = Ucxx.AlwaysCallback,
      Callback = callback,
    };
  }

  void Accept(IntPtr request) {
    var parameters = new Ucxx.EndpointParams {
      StructSize = Ucxx.SizeOf<Ucxx.EndpointParams>(),
      OnClose = onClose,
    };
    Ucxx.Check(Ucxx.ucxx_endpoint_accept(request, ref parameters, out client));
    Ucxx.ucxx_conn_request_destroy(request);
    Receive();
  }

  void Receive() {
    var parameters = Params(onReceived);
    parameters.RecvInfo = info;
    parameters.Source = client;
    Ucxx.Check(Ucxx.ucxx_tag_recv(worker, buffer.Address, (UIntPtr)buffer.Bytes.Length,
                                  PingPong.Ping, Ucxx.AllBits, ref parameters, IntPtr.Zero));
  }

  void Serve() {
    var host = Marshal.StringToHGlobalAnsi("127.0.0.1");
    var parameters = new Ucxx.ListenerParams {
      StructSize = Ucxx.SizeOf<Ucxx.ListenerParams>(),
      Host = host,
      OnConnect = onConnect,
    };
    IntPtr listener;
    Ucxx.Check(Ucxx.ucxx_listener_create(worker, ref parameters, out listener));
    Marshal.FreeHGlobal(host);
    using (new Handle(listener, Ucxx.ucxx_listener_destroy)) {
      Console.WriteLine(Ucxx.ucxx_listener_port(listener));
      while (!closed) {
        Ucxx.Check(Ucxx.ucxx_worker_wait(worker, PingPong.Minute));
        if (failure != null) throw failure;
      }
    }
    Ucxx.ucxx_endpoint_destroy(client);
    if (returned != PingPong.Rounds + 1) throw new Exception("messages are missing");
    Console.WriteLine("server: {0} messages returned", returned);
  }

  // The worker ends first. Until then it may use the buffer, and call back.
  public static void Run(IntPtr context) {
    using (var buffer = new Buffer(PingPong.Length))
    using (var worker = PingPong.CreateWorker(context)) {
      running = new Server(worker.Pointer, buffer);
      running.Serve();
    }
    Marshal.FreeHGlobal(running.info);
  }
}

static class PingPong {
  public const ulong Ping = 1, Pong = 2, Minute = 60000000000;
  public const int Rounds = 1000, Length = 4096;

  static void Ask(IntPtr worker, ushort port) {
    IntPtr pointer;
    Ucxx.Check(Ucxx.ucxx_endpoint_connect(worker, "127.0.0.1", port, IntPtr.Zero, out pointer));
    using (var server = new Handle(pointer, Ucxx.ucxx_endpoint_destroy))
    using (Buffer sent = new Buffer(Length), answer = new Buffer(Length)) {
      var wait = new Ucxx.OpParams {
        StructSize = Ucxx.SizeOf<Ucxx.OpParams>(),
        Flags = Ucxx.Wait,
        TimeoutNs = Minute,
      };
      Action send = () => Ucxx.Check(Ucxx.ucxx_tag_send(
          server.Pointer, sent.Address, (UIntPtr)Length, Ping, ref wait, IntPtr.Zero));
      Action<int> receive = length => Ucxx.Check(Ucxx.ucxx_tag_recv(
          worker, answer.Address, (UIntPtr)length, Pong, Ucxx.AllBits, ref wait, IntPtr.Zero));
      var random = new Random();
      for (int round = 0; round < Rounds; round++) {
        random.NextBytes(sent.Bytes);
        send();
        receive(Length);
        if (!sent.Bytes.SequenceEqual(answer.Bytes))
          throw new Exception("the answer is not what was sent");
      }
      Console.WriteLine("client: {0} answers are right", Rounds);

      send();
      try {
        receive(8);
        throw new Exception("expected a truncated message");
      } catch (UcxxException error) when (error.Status == Ucxx.Truncated) {
        Console.WriteLine("client: the error that was expected: {0}", error.Message);
      }
    }
  }

  public static Handle CreateWorker(IntPtr context) {
    IntPtr worker;
    Ucxx.Check(Ucxx.ucxx_worker_create(context, IntPtr.Zero, out worker));
    return new Handle(worker, Ucxx.ucxx_worker_destroy);
  }

  static void Main(string[] arguments) {
    IntPtr context;
    Ucxx.Check(Ucxx.ucxx_context_create(IntPtr.Zero, out context));
    using (new Handle(context, Ucxx.ucxx_context_destroy)) {
      if (arguments.Length == 0) {
        Server.Run(context);
      } else {
        using (var worker = CreateWorker(context)) Ask(worker.Pointer, ushort.Parse(arguments[0]));
      }
    }
  }
}
