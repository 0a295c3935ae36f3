package config

import (
	"strconv"
	"strings"

	"github.com/acpd/acpd/internal/ownwords"
)

// History says how many messages that have passed are kept.
type History struct {
	Messages int   `yaml:"messages" example:"1000" doc:"How many, the newest, from 0 to 100000. Default: 0, none."`
	Bytes    Bytes `yaml:"bytes" example:"4MiB" doc:"The memory that they may take together, in bytes, or like 512KiB or 4MiB; from 262144 (256 KiB) to 268435456 (256 MiB). Of a payload over 65536 bytes (64 KiB) the beginning alone is kept. Default: 4194304 (4 MiB)."`
}

// The bounds of History.
const (
	maxHistory      = 100_000
	minHistoryBytes = 256 << 10
	maxHistoryBytes = 256 << 20
)

func (p *parser) checkHistory(h *History) {
	if h.Messages < 0 || h.Messages > maxHistory {
		p.AddValueError("history.messages", ownwords.Errorf("%d: use a number from 0 to %d", h.Messages, maxHistory))
	}
	if h.Bytes < minHistoryBytes || h.Bytes > maxHistoryBytes {
		p.AddValueError("history.bytes", ownwords.Errorf("use bytes from %d to %d, or write them like 512KiB or 4MiB", minHistoryBytes, maxHistoryBytes))
	}
	if p.IsSet("history.bytes") && !p.IsSet("history.messages") {
		p.AddValueError("history.bytes", ownwords.Errorf("nothing would be kept: say with messages how many"))
	}
}

// Bytes is a number of bytes, which may be written with a unit.
type Bytes int

// SetText reads a number with a unit, like 4MiB. It sets anything else to -1, which no setting allows.
func (b *Bytes) SetText(text string) {
	*b = -1
	for unit, size := range map[string]uint64{"KiB": 1 << 10, "MiB": 1 << 20} {
		if digits, ok := strings.CutSuffix(text, unit); ok {
			if n, err := strconv.ParseUint(strings.TrimSpace(digits), 10, 32); err == nil && n*size <= 1<<30 {
				*b = Bytes(n * size)
			}
		}
	}
}
