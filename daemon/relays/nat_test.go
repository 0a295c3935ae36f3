package relays

import (
	"encoding/binary"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/peer"
)

// The kind of NAT is judged by what servers on different hosts see, and told with what to do.
func TestKindOfNAT(t *testing.T) {
	t.Parallel()
	answer := func(server, mapped string) peer.STUNAnswer {
		return peer.STUNAnswer{Server: netip.MustParseAddrPort(server), Mapped: netip.MustParseAddrPort(mapped)}
	}
	const own = "192.0.2.7:7117"
	for name, c := range map[string]struct {
		answers []peer.STUNAnswer
		verdict client.StepVerdict
		want    string
	}{
		"no answer":       {nil, client.StepWarning, "no STUN server answers"},
		"one answer":      {[]peer.STUNAnswer{answer("203.0.113.1:3478", "198.51.100.1:7117")}, client.StepWarning, "one STUN server sees this machine at 198.51.100.1:7117"},
		"one host twice":  {[]peer.STUNAnswer{answer("203.0.113.1:3478", "198.51.100.1:7117"), answer("203.0.113.1:3479", "198.51.100.1:7117")}, client.StepWarning, "one STUN server"},
		"one each family": {[]peer.STUNAnswer{answer("203.0.113.1:3478", "198.51.100.1:7117"), answer("[2001:db8::1]:3478", "[2001:db8:1::2]:7117")}, client.StepWarning, "one STUN server"},
		"one port":        {[]peer.STUNAnswer{answer("203.0.113.1:3478", "198.51.100.1:40000"), answer("203.0.113.2:3478", "198.51.100.1:40000")}, client.StepOK, "the NAT keeps one port for all peers: 198.51.100.1:40000"},
		"other ports":     {[]peer.STUNAnswer{answer("203.0.113.1:3478", "198.51.100.1:40000"), answer("203.0.113.2:3478", "198.51.100.1:40001")}, client.StepWarning, "the NAT takes another port for each peer: 198.51.100.1:40000, 198.51.100.1:40001"},
		"no NAT":          {[]peer.STUNAnswer{answer("203.0.113.1:3478", own)}, client.StepOK, "no NAT: this machine is seen at its own address " + own},
		"IPv6 by two":     {[]peer.STUNAnswer{answer("203.0.113.1:3478", "198.51.100.1:7117"), answer("[2001:db8::1]:3478", "[2001:db8:1::2]:1"), answer("[2001:db8::2]:3478", "[2001:db8:1::2]:1")}, client.StepOK, "one port for all peers: [2001:db8:1::2]:1"},
	} {
		step := describeNAT(c.answers, []string{"10.0.0.1:7117", own})
		if step.Step != "nat" || step.Verdict != c.verdict || !strings.Contains(step.What, c.want) || (step.Remedy == "") != (step.Verdict == client.StepOK) {
			t.Errorf("%s: %+v", name, step)
		}
	}
}

// startSTUN starts a STUN server (RFC 8489) at 127.0.0.1, and returns its address.
func startSTUN(t *testing.T) string {
	t.Helper()
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	go func() {
		request := make([]byte, 1500)
		for {
			n, from, err := socket.ReadFrom(request)
			if err != nil {
				return
			}
			if n != 20 {
				continue
			}
			at := from.(*net.UDPAddr)
			answer := append([]byte{1, 1, 0, 12}, request[4:20]...) // success, of 12 bytes; cookie and id
			answer = append(answer, 0, 0x20, 0, 8, 0, 1)            // XOR-MAPPED-ADDRESS, of IPv4
			answer = binary.BigEndian.AppendUint16(answer, uint16(at.Port)^0x2112)
			answer = binary.BigEndian.AppendUint32(answer, binary.BigEndian.Uint32(at.IP.To4())^0x2112a442)
			socket.WriteTo(answer, from)
		}
	}()
	return socket.LocalAddr().String()
}

// With reach.stun the test of a relay ends with the kind of NAT, whatever comes of the relay; without it
// nothing is said.
func TestRelayTestSaysTheKindOfNAT(t *testing.T) {
	t.Parallel()
	for _, stun := range [][]string{nil, {startSTUN(t)}} {
		desk := start(t, t.TempDir(), config.Reach{STUN: stun})
		desk.add(client.RelayAddParams{URL: deadURL(t), Name: "hub"})
		var steps []client.RelayStep
		await.Until(t, "the STUN server is heard", func() bool { // a busy machine may answer later than 1.2 s
			got, err := desk.serveTest(t.Context(), nil, &client.RelayTestParams{})
			if err != nil {
				t.Fatal(err)
			}
			steps = got.(*client.RelayChecks).Checks[0].Steps
			return stun == nil || steps[len(steps)-1].What != "no STUN server answers"
		})
		if last := steps[len(steps)-1]; stun == nil && (len(steps) != 1 || last.Step != "connect") ||
			stun != nil && (len(steps) != 2 || last.Step != "nat" || last.Verdict != client.StepOK || last.TookUS == 0 || !strings.HasSuffix(last.What, " at its own address "+desk.Node.Addr().String())) {
			t.Errorf("STUN at %q: %+v", stun, steps)
		}
	}
}
