package object

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ChannelOptions holds the options that have a meaning here.
type ChannelOptions struct {
	Audit        bool
	Discoverable bool
	TTL          time.Duration // may be 0
	MaxMessages  int64
}

const (
	maxMessages = 10_000 // that max_messages may keep
	defaultMax  = 1000
	MaxTTL      = 10 * 366 * 24 * 3600 // seconds
)

// ParseOptions reads an options object.
func ParseOptions(raw jsontext.Value) (ChannelOptions, error) {
	var o struct {
		Audit    bool   `json:"audit"`
		TTL      *int64 `json:"ttl_seconds"`
		Max      *int64 `json:"max_messages"`
		Discover *bool  `json:"discoverable"`
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		return ChannelOptions{}, NewFieldError("options", "audit and discoverable are true or false, ttl_seconds and max_messages whole numbers")
	}
	p := ChannelOptions{Audit: o.Audit, MaxMessages: defaultMax, Discoverable: o.Discover == nil || *o.Discover}
	if o.TTL != nil {
		if *o.TTL < 1 || *o.TTL > MaxTTL {
			return ChannelOptions{}, NewFieldError("options", "ttl_seconds: 1 to %d, or null", MaxTTL)
		}
		p.TTL = time.Duration(*o.TTL) * time.Second
	}
	if o.Max != nil {
		if *o.Max < 1 || *o.Max > maxMessages {
			return ChannelOptions{}, NewFieldError("options", "max_messages: 1 to %d", maxMessages)
		}
		p.MaxMessages = *o.Max
	}
	return p, nil
}

// WithDefaults returns all options with the defaults. Options without a meaning here stay.
func (p ChannelOptions) WithDefaults(raw jsontext.Value) jsontext.Value {
	var all map[string]jsontext.Value
	if err := json.Unmarshal(raw, &all); err != nil || all == nil {
		all = make(map[string]jsontext.Value)
	}
	ttl := jsontext.Value("null")
	if p.TTL > 0 {
		ttl = fmt.Append(nil, int64(p.TTL/time.Second))
	}
	all["audit"], all["ttl_seconds"], all["max_messages"] = fmt.Append(nil, p.Audit), ttl, fmt.Append(nil, p.MaxMessages)
	return EncodeJSON(all)
}
