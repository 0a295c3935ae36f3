package config

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/yamldoc"
)

// MaxKeptRelays bounds the file of the relays that the daemon keeps, in bytes.
const MaxKeptRelays = 64 << 10

// keptRelays is the content of that file.
type keptRelays struct {
	Relays []Relay `yaml:"relays"`
}

// ParseKeptRelays reads the file of the relays that the daemon keeps in addition to those of config.yaml. They
// are written in the same way. file names it in errors, which are those of [LoadConfig].
func ParseKeptRelays(file string, data []byte) ([]Relay, error) {
	if len(data) > MaxKeptRelays {
		return nil, joinErrors([]*yamldoc.Error{{File: file, Line: 1 + bytes.Count(data[:MaxKeptRelays], []byte{'\n'}), Problem: "the file is over 64 KiB", Remedy: "shorten it"}})
	}
	var kept keptRelays
	p := parser{yamldoc.Decode(data, &kept, yamldoc.Options{File: file})}
	p.checkRelays("relays", kept.Relays)
	if errs := p.ListErrors(); len(errs) > 0 {
		return nil, joinErrors(errs)
	}
	return kept.Relays, nil
}

const keptRelaysHead = `# Relays that acpctl relay add and acpctl join keep, in addition to those of config.yaml.
# The daemon writes this file; acpctl relay remove NAME takes one out.
`

// RenderKeptRelays returns the text that [ParseKeptRelays] reads, or an error if it would refuse a relay.
func RenderKeptRelays(relays []Relay) ([]byte, error) {
	var b strings.Builder
	b.WriteString(keptRelaysHead + "relays:")
	if len(relays) == 0 {
		b.WriteString(" []")
	}
	b.WriteString("\n")
	for _, r := range relays {
		before := "- "
		for _, field := range [][2]string{
			{"name", r.Name}, {"url", r.URL}, {"credentials", r.Credentials}, {"token", string(r.Token)}, {"user", r.User}, {"password", string(r.Password)},
		} {
			if field[1] == "" {
				continue
			}
			text, err := json.Marshal(field[1]) // also YAML (1.2, section 1.3)
			if err != nil {
				return nil, ownwords.Errorf("relay: %s: not valid UTF-8", field[0])
			}
			fmt.Fprintf(&b, "%s%s: %s\n", before, field[0], text)
			before = "  "
		}
		if r.Share {
			b.WriteString(before + "share: true\n")
		}
	}
	data := []byte(b.String())
	if _, err := ParseKeptRelays("relay", data); err != nil {
		if all := ListErrors(err); len(all) > 0 {
			return nil, ownwords.Errorf("%s: %s", all[0].Problem, all[0].Remedy)
		}
		return nil, ownwords.New("the relays cannot be written")
	}
	return data, nil
}
