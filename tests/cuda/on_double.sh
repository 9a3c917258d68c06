#!/bin/sh
# on_double.sh FOLDER COMMAND...: runs a program with the stand-in for the CUDA driver in that
# folder.
folder=$1
shift
LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} UCX_MODULES=^cuda exec "$@"
