package doctor

import (
	"errors"
	"strings"
	"testing"

	"github.com/acpd/acpd/disk"
)

// Nothing is said of a disk that cannot be measured, also while the daemon says how much must be free.
func TestUnmeasuredDisk(t *testing.T) {
	o := options(t, startSite(t, "desk").home)
	o.Machine.MeasureSpace = func(string) (disk.Space, error) { return disk.Space{}, errors.New("it does not say") }
	for _, f := range examine(t, o) {
		if strings.HasPrefix(string(f.Code), "disk.") {
			t.Errorf("%+v", f)
		}
	}
}
