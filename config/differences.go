package config

import (
	"reflect"

	"github.com/acpd/acpd/internal/yamldoc"
)

// ListChangedSettings returns the names of the settings in which two configurations differ, as in
// policy and channels.open_to, in the order of the reference file.
func (c *Config) ListChangedSettings(o *Config) (names []string) {
	return listChangedFields("", reflect.ValueOf(c).Elem(), reflect.ValueOf(o).Elem())
}

func listChangedFields(above string, a, b reflect.Value) (names []string) {
	for i := range a.NumField() {
		field := a.Type().Field(i)
		name := yamldoc.JoinKey(above, field.Tag.Get("yaml"))
		if field.Tag.Get("yaml") == yamldoc.Inline {
			name = above
		}
		switch {
		case field.Type.Kind() == reflect.Struct:
			names = append(names, listChangedFields(name, a.Field(i), b.Field(i))...)
		case !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()):
			names = append(names, name)
		}
	}
	return names
}

// FindPeerRefs returns the settings that name peers, each with the names or ids as they are
// written. wanted reports whether a name or id is wanted; "*" never is.
func (c *Config) FindPeerRefs(wanted func(ref string) bool) map[string][]string {
	found := make(map[string][]string)
	add := func(setting, ref string) {
		if ref != star && ref != "" && wanted(ref) {
			found[setting] = append(found[setting], ref)
		}
	}
	for ref := range c.Policy {
		add("policy", ref)
	}
	for ref := range c.Peers {
		add("peers", ref)
	}
	for _, r := range c.Limits.Rate {
		add("limits.rate", r.Peer)
	}
	for _, ref := range c.Channels.OpenTo {
		add("channels.open_to", ref)
	}
	for _, a := range c.Agents.Named {
		for _, ref := range a.To {
			add("agents", ref)
		}
		for ref := range a.Wake {
			add("agents", ref)
		}
	}
	return found
}
