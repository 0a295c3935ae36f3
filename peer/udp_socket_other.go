//go:build !linux

package peer

import "net"

func newUDPSocket(conn *net.UDPConn) (net.PacketConn, error) { return conn, nil }
