"""chat-template-renders: the model's chat template is walked, never executed."""

from canserve.checks.chat_template.check import CHECK

__all__ = ["CHECK"]
