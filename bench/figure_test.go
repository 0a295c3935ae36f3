package main

import "testing"

func TestFormatTable(t *testing.T) {
	for _, c := range []struct {
		name    string
		figures []figure
		want    string
	}{
		{"columns", []figure{
			{"time", "acpd", "µs", []float64{90, 104.96, 300}},
			{"time", "other", "µs", []float64{1234.6}},
			{"rate", "acpd", "/s", []float64{1000}},
			{"rate", "other", "/s", []float64{0.0123}},
		}, `|  | acpd | other |
| --- | ---: | ---: |
| time | 105 (97.5–202) µs | 1235 µs |
| rate | 1000 /s | 0.0123 /s |
`},
		{"figures of different names", []figure{
			{"peers", "1", "MB", []float64{13}},
			{"peers", "10", "MB", []float64{14}},
			{"messages", "100", "MB", []float64{15}},
		}, `|  |  |  |
| --- | ---: | ---: |
| peers | 1: 13.0 MB | 10: 14.0 MB |
| messages | 100: 15.0 MB |  |
`},
	} {
		if got := formatTable(c.figures); got != c.want {
			t.Errorf("%s:\n%s\nwant:\n%s", c.name, got, c.want)
		}
	}
}

func TestFormatValue(t *testing.T) {
	for value, want := range map[float64]string{603.2: "603", 1612: "1612", 20.03: "20.0", 2.431: "2.43", 0.0123: "0.0123", 0: "0"} {
		if got := formatValue(value); got != want {
			t.Errorf("formatValue(%g) = %q, want %q", value, got, want)
		}
	}
}
