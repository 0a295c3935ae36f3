package setup

import (
	_ "embed"
	"fmt"
)

// skill tells a model how to ask and answer, in the form of agentskills.io.
//
//go:embed skill.md
var skill string

// skillPath is where a folder of a program has skills of that form.
const skillPath = "skills/acpd/SKILL.md"

// agentsSkill returns the place of the skill for Codex and OpenCode.
func (o *Options) agentsSkill() place {
	if o.Project != "" {
		return projectPlace(o.Project, ".agents", skillPath)
	}
	return ownPlace(o.Home, ".agents", skillPath)
}

// withSkill adds the skill to the step of instructions.
func (o *Options) withSkill(s Step, p *program, at place) Step {
	at.mode = 0o644
	if s.edits == nil {
		s.Question = fmt.Sprintf("May a skill in %s tell %s how to ask and answer?", at.path, p.title)
	} else {
		s.Question += fmt.Sprintf(" A skill in %s tells how to ask and answer.", at.path)
	}
	s.edits = append(s.edits, edit{at, func(text []byte) ([]byte, error) {
		r, err := o.readRecord(at.path)
		if isUnchanged := r != nil && r.After == hashText(text); err != nil || exists(at) && !isUnchanged {
			return text, err // its user has written it
		}
		return []byte(skill), nil
	}})
	return s
}

// newSkillPart returns the part of the skill. It is removed if it is as setup wrote it.
func newSkillPart(at place) part {
	return part{
		place: at, shared: true,
		change: func(text []byte) ([]byte, error) {
			if string(text) == skill {
				return nil, nil
			}
			return text, nil
		},
		isEmpty: func(text []byte) bool { return len(text) == 0 },
	}
}
