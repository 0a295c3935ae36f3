package doctor

import (
	"errors"
	"net"
	"testing"

	"github.com/acpd/acpd/integration/await"
)

// TestHearMulticast: on an interface of this machine that can do multicast, what is sent is heard;
// where a machine has none, loopback stands for one.
func TestHearMulticast(t *testing.T) {
	all, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	var why error
	for _, nic := range all {
		if addrs, _ := nic.Addrs(); nic.Flags&net.FlagUp == 0 || len(addrs) == 0 {
			continue
		}
		err := hearMulticast(await.NewContext(t), nic)
		if err == nil {
			return
		}
		why = errors.Join(why, err)
	}
	t.Errorf("nothing is heard anywhere: %v", why)
}
