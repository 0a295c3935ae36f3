package main

import (
	"fmt"
	"os"

	"github.com/acpd/acpd/oacp/message"
)

// measureValidation measures what judging a message of an ordinary size costs, the
// garbage collector's share included: 50 µs are 20,000 messages a second and processor.
func measureValidation() (figure, error) {
	const batches, size = 20, 1000
	f := figure{what: "CPU for validating one message", unit: "µs", target: 50}
	texts := make([][]byte, size)
	for i := range texts {
		texts[i] = composeMail(i)
	}
	for range batches {
		before, err := cpuTime(os.Getpid())
		if err != nil {
			return f, err
		}
		for _, text := range texts {
			d, err := message.ParseDocument(text)
			if err != nil {
				return f, err
			}
			if lines := d.Validate(); lines != nil {
				return f, fmt.Errorf("the message is invalid: %q", lines)
			}
		}
		after, err := cpuTime(os.Getpid())
		if err != nil {
			return f, err
		}
		f.values = append(f.values, float64((after-before).Nanoseconds())/size/1000)
	}
	return f, nil
}
