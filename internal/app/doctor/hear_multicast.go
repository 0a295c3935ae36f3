package doctor

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// The groups of multicast DNS (RFC 6762, section 3).
var (
	mdnsIPv4 = &net.UDPAddr{IP: net.IPv4(224, 0, 0, 251), Port: 5353}
	mdnsIPv6 = &net.UDPAddr{IP: net.ParseIP("ff02::fb"), Port: 5353}
)

// hearPatience bounds the time until what was sent is heard; it is sent three times meanwhile.
const hearPatience = time.Second

var errDeaf = errors.New("nothing is heard")

// hearMulticast sends a question for daemons to the group on an interface, and returns nil if it
// is heard there by this machine itself, which it is unless something drops it. A port that
// another program does not share is EADDRINUSE.
func hearMulticast(ctx context.Context, nic net.Interface) error {
	network, group := "udp4", mdnsIPv4
	if !hasIPv4(&nic) {
		network, group = "udp6", mdnsIPv6
	}
	listener, err := net.ListenMulticastUDP(network, &nic, group)
	if err != nil {
		return err
	}
	defer listener.Close()
	defer context.AfterFunc(ctx, func() { listener.SetDeadline(time.Unix(1, 0)) })()
	sender, err := net.ListenUDP(network, nil)
	if err != nil {
		return err
	}
	defer sender.Close()
	if err := sendOnInterface(sender, network, &nic); err != nil {
		return err
	}
	question := newQuestion()
	buf := make([]byte, 9000)
	for range 3 {
		if _, err := sender.WriteToUDP(question, group); err != nil {
			return fmt.Errorf("send: %w", err)
		}
		for end := time.Now().Add(hearPatience / 3); ; {
			listener.SetReadDeadline(end)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			n, _, err := listener.ReadFromUDP(buf)
			if err != nil {
				break
			}
			if bytes.Equal(buf[:n], question) {
				return nil
			}
		}
	}
	return errDeaf
}

func hasIPv4(nic *net.Interface) bool {
	addrs, _ := nic.Addrs()
	for _, a := range addrs {
		if ip, _, err := net.ParseCIDR(a.String()); err == nil && ip.To4() != nil {
			return true
		}
	}
	return false
}

// sendOnInterface makes what a socket sends to a group leave on one interface.
func sendOnInterface(s *net.UDPConn, network string, nic *net.Interface) error {
	if network == "udp4" {
		return ipv4.NewPacketConn(s).SetMulticastInterface(nic)
	}
	return ipv6.NewPacketConn(s).SetMulticastInterface(nic)
}

// newQuestion returns a question of multicast DNS for _acp._udp.local (RFC 6762, section 5). Its id,
// which who answers ignores, is drawn.
func newQuestion() []byte {
	q := make([]byte, 12, 64)
	rand.Read(q[:2])
	q[5] = 1 // one question
	for _, label := range []string{"_acp", "_udp", "local"} {
		q = append(append(q, byte(len(label))), label...)
	}
	return append(q, 0, 0, 12, 0, 1) // PTR, IN
}
