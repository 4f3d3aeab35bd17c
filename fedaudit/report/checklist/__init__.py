"""What assessors of data protection ask of an audit, answered from its report or named as open."""
