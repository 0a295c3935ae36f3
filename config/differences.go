package config

import "reflect"

// Changed returns the names of the settings in which two configurations differ, as in
// policy and channels.open_to, in the order of the reference file.
func (c *Config) Changed(o *Config) (names []string) {
	return changedUnder("", reflect.ValueOf(c).Elem(), reflect.ValueOf(o).Elem())
}

func changedUnder(above string, a, b reflect.Value) (names []string) {
	for i := range a.NumField() {
		field := a.Type().Field(i)
		name := joinKey(above, field.Tag.Get("yaml"))
		switch {
		case field.Type.Kind() == reflect.Struct:
			names = append(names, changedUnder(name, a.Field(i), b.Field(i))...)
		case !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()):
			names = append(names, name)
		}
	}
	return names
}

// Unmatched returns the settings that name peers that are not trusted, each with those
// names as they are written. known reports whether a name or id is a trusted peer's.
func (c *Config) Unmatched(known func(ref string) bool) map[string][]string {
	found := make(map[string][]string)
	look := func(setting, ref string) {
		if ref != star && ref != "" && !known(ref) {
			found[setting] = append(found[setting], ref)
		}
	}
	for ref := range c.Policy {
		look("policy", ref)
	}
	for ref := range c.Peers {
		look("peers", ref)
	}
	for _, r := range c.Limits.Rate {
		look("limits.rate", r.Peer)
	}
	for _, ref := range c.Channels.OpenTo {
		look("channels.open_to", ref)
	}
	return found
}
