package ui

import (
	"strings"
	"testing"

	"rsc.io/qr"
)

// What is drawn is the code, module for module, within its quiet zone.
func TestQRCode(t *testing.T) {
	const text = "acp://desk.example"
	code, err := qr.Encode(text, qr.L)
	if err != nil {
		t.Fatal(err)
	}
	for _, colour := range []bool{false, true} {
		drawn, columns, err := DrawQRCode(text, colour)
		if err != nil {
			t.Fatal(err)
		}
		drawn = strings.NewReplacer("\x1b[97;40m", "", Plain, "").Replace(drawn)
		size := code.Size + 2*quietZone
		if columns != size {
			t.Errorf("%d columns for %d modules", columns, size)
		}
		lines := strings.Split(strings.TrimSuffix(drawn, "\n"), "\n")
		if len(lines) != (size+1)/2 {
			t.Fatalf("%d lines for %d modules", len(lines), size)
		}
		for y := range size {
			row := []rune(lines[y/2])
			if len(row) != size {
				t.Fatalf("line %d has %d characters for %d modules", y/2, len(row), size)
			}
			for x, r := range row {
				light := r == '█' || r == '▀' && y%2 == 0 || r == '▄' && y%2 == 1
				if light == code.Black(x-quietZone, y-quietZone) {
					t.Fatalf("module %d, %d is wrong", x-quietZone, y-quietZone)
				}
			}
		}
	}
}
