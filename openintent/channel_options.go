package openintent

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// channelOptions holds the options that have a meaning here.
type channelOptions struct {
	audit        bool
	discoverable bool
	ttl          time.Duration // may be 0
	max          int64
}

const (
	maxMessages = 10_000 // that max_messages may keep
	defaultMax  = 1000
	maxTTL      = 10 * 366 * 24 * 3600 // seconds
)

// parseOptions reads an options object.
func parseOptions(raw jsontext.Value) (channelOptions, error) {
	var o struct {
		Audit    bool   `json:"audit"`
		TTL      *int64 `json:"ttl_seconds"`
		Max      *int64 `json:"max_messages"`
		Discover *bool  `json:"discoverable"`
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		return channelOptions{}, NewFieldError("options", "audit and discoverable are true or false, ttl_seconds and max_messages whole numbers")
	}
	p := channelOptions{audit: o.Audit, max: defaultMax, discoverable: o.Discover == nil || *o.Discover}
	if o.TTL != nil {
		if *o.TTL < 1 || *o.TTL > maxTTL {
			return channelOptions{}, NewFieldError("options", "ttl_seconds: 1 to %d, or null", maxTTL)
		}
		p.ttl = time.Duration(*o.TTL) * time.Second
	}
	if o.Max != nil {
		if *o.Max < 1 || *o.Max > maxMessages {
			return channelOptions{}, NewFieldError("options", "max_messages: 1 to %d", maxMessages)
		}
		p.max = *o.Max
	}
	return p, nil
}

// withDefaults returns all options with the defaults. Options without a meaning here stay.
func (p channelOptions) withDefaults(raw jsontext.Value) jsontext.Value {
	var all map[string]jsontext.Value
	if err := json.Unmarshal(raw, &all); err != nil || all == nil {
		all = make(map[string]jsontext.Value)
	}
	ttl := jsontext.Value("null")
	if p.ttl > 0 {
		ttl = fmt.Append(nil, int64(p.ttl/time.Second))
	}
	all["audit"], all["ttl_seconds"], all["max_messages"] = fmt.Append(nil, p.audit), ttl, fmt.Append(nil, p.max)
	return EncodeJSON(all)
}
