package ui

import (
	"strings"

	"rsc.io/qr"
)

const quietZone = 4 // modules, ISO/IEC 18004, section 6.3.8

// DrawQRCode draws text as a QR code, two modules a character, and returns how many columns it
// takes. With colour it is black on white whatever the terminal's colours are. Without, it is
// for light text on a dark ground.
func DrawQRCode(text string, colour bool) (drawn string, columns int, err error) {
	code, err := qr.Encode(text, qr.L)
	if err != nil {
		return "", 0, err
	}
	var b strings.Builder
	for y := -quietZone; y < code.Size+quietZone; y += 2 {
		if colour {
			b.WriteString("\x1b[97;40m")
		}
		for x := -quietZone; x < code.Size+quietZone; x++ {
			// Black is false outside of the code.
			upper, lower := !code.Black(x, y), !code.Black(x, y+1) && y+1 < code.Size+quietZone
			b.WriteString(halves[upper][lower])
		}
		if colour {
			b.WriteString(Plain)
		}
		b.WriteString("\n")
	}
	return b.String(), code.Size + 2*quietZone, nil
}

// halves maps whether the upper and the lower half is light to a character.
var halves = map[bool]map[bool]string{
	true:  {true: "█", false: "▀"},
	false: {true: "▄", false: " "},
}
