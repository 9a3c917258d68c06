#!/bin/sh
# What the launchers of the MPIs start a program on another host with: that host is a namespace of
# this machine. They give options, the name, and a command in words or in one, as they would to ssh.
while [ "${1#-}" != "$1" ]; do shift; done
host=$1
shift
exec ip netns exec "$host" sh -c "$*"
