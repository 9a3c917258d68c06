#!/bin/sh
# Used by the launchers of the MPIs instead of ssh, to start a program on another host, which is a
# network namespace of this machine. The arguments are as for ssh: options, the name, and a command.
while [ "${1#-}" != "$1" ]; do shift; done
host=$1
shift
exec ip netns exec "$host" sh -c "$*"
